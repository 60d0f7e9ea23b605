# ruff: noqa: E501, RUF001, SIM905  (word lists, snippets and sentences of many scripts: data in rows)
"""Chats of many kinds, made from a seed: English, Portuguese, code, JSON, logs, tables, tools. No file is read but Python's own sources."""

import argparse
import ast
import asyncio.base_events
import csv
import decimal
import difflib
import email.message
import fractions
import heapq
import inspect
import ipaddress
import json
import random
import statistics
import tarfile
import textwrap
import textwrap as tw
import zipfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

Body = dict[str, Any]

MODULES: tuple[ModuleType, ...] = (
    argparse, ast, asyncio.base_events, csv, decimal, difflib, email.message, fractions, heapq, ipaddress, statistics,
    tarfile, tw, zipfile,
)  # fmt: skip

ENGLISH = {
    "who": "The engineer|Our customer|A young doctor|The committee|Nobody in the village|My sister|The old lighthouse keeper|Every second reader|The night shift|Professor Albright".split("|"),
    "does": "has explained|quietly ignores|would rather postpone|keeps asking about|cannot remember|is responsible for|finally understood|often compares|wrote a letter about|doubts".split("|"),
    "what": "the budget for next year|how photosynthesis works|the difference between latency and throughput|an unusually cold winter|the recipe with chickpeas and lemon|why the bridge was closed|two contradictory measurements|the migration to a new database|the third chapter|her grandmother's house".split("|"),
    "why": "because the train was late|although nobody had asked|since the results were inconclusive|before the auditors arrive in spring|so that the children could sleep|and that surprised everyone, including me|while it rained for 3 days|, which is a pity|in spite of the warnings|after 1989".split("|"),
}  # fmt: skip

PORTUGUESE = {
    "who": "O engenheiro|A nossa cliente|Um jovem médico|A comissão de avaliação|Ninguém na aldeia|Minha irmã|O velho faroleiro|Cada segundo leitor|A equipa da noite|A professora Conceição".split("|"),
    "does": "já explicou|ignora discretamente|preferia adiar|continua a perguntar sobre|não consegue lembrar-se de|é responsável por|finalmente percebeu|compara frequentemente|escreveu uma carta sobre|põe em dúvida".split("|"),
    "what": "o orçamento do próximo ano|como funciona a fotossíntese|a diferença entre latência e vazão|um inverno extraordinariamente frio|a receita de grão-de-bico com limão|por que razão a ponte foi fechada|duas medições contraditórias|a migração para uma nova base de dados|o terceiro capítulo|a casa da avó".split("|"),
    "why": "porque o comboio chegou atrasado|embora ninguém tivesse perguntado|já que os resultados foram inconclusivos|antes de os auditores chegarem na primavera|para que as crianças pudessem dormir|e isso surpreendeu toda a gente, inclusive a mim|enquanto choveu durante 3 dias|, o que é uma pena|apesar dos avisos|depois de 1989".split("|"),
}  # fmt: skip

OTHERS = (
    "Die Ergebnisse der Untersuchung überraschten sogar die Fachleute, obwohl niemand ernsthaft gezweifelt hatte.",
    "Les résultats de l'enquête ont étonné même les spécialistes ; personne n'en avait pourtant douté.",
    "Результаты исследования удивили даже специалистов, хотя никто всерьёз не сомневался.",
    "調査の結果は専門家さえも驚かせたが、誰も本気で疑ってはいなかった。",
    "研究结果甚至让专家们感到惊讶，尽管没有人认真怀疑过。",
    "نتائج الدراسة فاجأت حتى المتخصصين رغم أن أحدا لم يشك فيها بجدية.",
    "Great job 🎉🎉 — see you at 10:30 ☕️, okay? 👍",
)

SNIPPETS = (
    "export async function load{N}(id: string): Promise<Item[]> {\n  const res = await fetch(`/api/items/${id}?limit={n}`);\n  if (!res.ok) throw new Error(`HTTP ${res.status}`);\n  return (await res.json()).items.map((x: Raw) => ({ ...x, price: x.price / 100 }));\n}\n",
    "impl<T: Clone + Send + 'static> Pool{N}<T> {\n    pub fn take(&mut self, n: usize) -> Option<Vec<T>> {\n        if self.free.len() < n || n == {n} {\n            return None;\n        }\n        Some(self.free.drain(..n).collect())\n    }\n}\n",
    "SELECT o.id, c.name, SUM(l.qty * l.price) AS total\nFROM orders o JOIN customers c ON c.id = o.customer_id\nLEFT JOIN lines_{n} l ON l.order_id = o.id\nWHERE o.created_at >= '2026-0{d}-01' AND c.region IN ('EU', 'US')\nGROUP BY 1, 2 HAVING SUM(l.qty) > {n} ORDER BY total DESC LIMIT {n};\n",
    "static int read_frame{N}(struct conn *c, uint8_t *buf, size_t len)\n{\n\tssize_t got;\n\n\twhile ((got = recv(c->fd, buf, len, MSG_DONTWAIT)) < 0 && errno == EINTR)\n\t\t;\n\tif (got == 0)\n\t\treturn -{n};\n\tmemcpy(c->tail + c->used, buf, (size_t)got);\n\treturn 0;\n}\n",
    "#!/usr/bin/env bash\nset -euo pipefail\nfor f in $(find /var/log/app{n} -name '*.gz' -mtime +{d}); do\n  zcat \"$f\" | grep -E 'ERROR|WARN' | awk '{print $1, $NF}' >> \"${OUT:-/tmp/out{n}.txt}\"\ndone\n",
    "<div class=\"card card-{n}\" id=\"item{d}\">\n  <h2>{{ title }}</h2>\n  <p style=\"margin: 0 {n}px\">It&#39;s <b>only</b> a test &mdash; really.</p>\n  <a href=\"https://example.org/a/{n}?x={d}&amp;y=2#top\">more</a>\n</div>\n",
    "func (s *Server{N}) Handle(ctx context.Context, w http.ResponseWriter, r *http.Request) error {\n\tdefer s.mu.Unlock()\n\ts.mu.Lock()\n\tif s.inflight >= {n} {\n\t\treturn fmt.Errorf(\"too busy: %d of %d\", s.inflight, {n})\n\t}\n\treturn json.NewEncoder(w).Encode(map[string]any{\"id\": r.URL.Query().Get(\"id\")})\n}\n",
)  # fmt: skip


def sentence(rng: random.Random, words: dict[str, list[str]]) -> str:
    return f"{rng.choice(words['who'])} {rng.choice(words['does'])} {rng.choice(words['what'])} {rng.choice(words['why'])}."


def prose(rng: random.Random, words: dict[str, list[str]]) -> str:
    parts = [" ".join(sentence(rng, words) for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(1, 6))]
    return rng.choice(("\n\n", "\n", " ")).join(parts)


def docs(rng: random.Random) -> str:
    found = [text for _, member in inspect.getmembers(rng.choice(MODULES)) if (text := inspect.getdoc(member))]
    return rng.choice(found)[: rng.randint(200, 4000)]


def python(rng: random.Random) -> str:
    source = inspect.getsource(rng.choice(MODULES)).splitlines()
    start = rng.randrange(max(1, len(source) - 80))
    code = "\n".join(source[start : start + rng.randint(10, 80)])
    return f"{rng.choice(('Review this:', 'Explain', 'What does it do?'))}\n```python\n{textwrap.dedent(code)}\n```"


def code(rng: random.Random) -> str:
    def fill(text: str) -> str:
        return (
            text.replace("{N}", rng.choice("ABCDE"))
            .replace("{n}", str(rng.randint(1, 4096)))
            .replace("{d}", str(rng.randint(1, 9)))
        )

    return "\n".join(fill(rng.choice(SNIPPETS)) for _ in range(rng.randint(1, 6)))


def value(rng: random.Random, depth: int = 0) -> Any:
    roll = rng.random()
    if depth < 3 and roll < 0.3:
        return {
            rng.choice(("id", "name", "created_at", "items", "userId", "tags", "unit_price", "note")): value(
                rng, depth + 1
            )
            for _ in range(4)
        }
    if depth < 3 and roll < 0.45:
        return [value(rng, depth + 1) for _ in range(rng.randint(1, 4))]
    return rng.choice(
        (
            rng.randint(0, 99999),
            round(rng.uniform(-90, 90), 6),
            True,
            None,
            sentence(rng, ENGLISH)[:40],
            f"2026-1{rng.randint(0, 2)}-{rng.randint(10, 28)}T08:{rng.randint(10, 59)}:00Z",
            f"{rng.getrandbits(64):016x}",
        )
    )


def as_json(rng: random.Random) -> str:
    rows = [{"id": i, "payload": value(rng)} for i in range(rng.randint(1, 12))]
    return json.dumps(rows, indent=rng.choice((None, 2, 4)), ensure_ascii=False)


def log(rng: random.Random) -> str:
    return "\n".join(
        f"2026-11-{rng.randint(10, 28)} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02},{rng.randint(0, 999):03} "
        f"{rng.choice(('INFO', 'WARN', 'ERROR', 'DEBUG'))} [worker-{rng.randint(1, 32)}] com.example.Job{rng.choice('ABC')}: "
        f"took {rng.uniform(0, 900):.2f} ms, status={rng.choice((200, 404, 503))} path=/v{rng.randint(1, 3)}/u/{rng.getrandbits(40):x}"
        for _ in range(rng.randint(3, 30))
    )


def table(rng: random.Random) -> str:
    head = "| region | units | price | change |\n|---|---:|---:|---:|\n"
    return head + "\n".join(
        f"| {rng.choice(('north', 'south', 'EU-west', 'São Paulo'))} | {rng.randint(1, 99999):,} | {rng.uniform(1, 900):.2f} | {rng.uniform(-9, 9):+.1f} % |"
        for _ in range(rng.randint(3, 30))
    )


def world(rng: random.Random) -> str:
    return " ".join(rng.choice(OTHERS) for _ in range(rng.randint(1, 5)))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "english": lambda rng: prose(rng, ENGLISH),
    "docs": docs,
    "portuguese": lambda rng: prose(rng, PORTUGUESE),
    "python": python,
    "code": code,
    "json": as_json,
    "log": log,
    "table": table,
    "world": world,
}


def tool(rng: random.Random) -> Body:
    name = rng.choice(("get_weather", "search_orders", "run_query", "send_email", "list_files", "createTicket"))
    fields = rng.sample(("city", "limit", "query", "to", "subject", "path", "since", "currency"), rng.randint(1, 5))
    properties = {
        f: {
            "type": rng.choice(("string", "integer", "boolean")),
            "description": sentence(rng, ENGLISH)[: rng.randint(10, 90)],
        }
        for f in fields
    }
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": sentence(rng, ENGLISH),
            "parameters": {"type": "object", "properties": properties, "required": fields[:1]},
        },
    }


def calls(rng: random.Random) -> list[Body]:
    arguments = json.dumps(
        {"city": "Porto", "limit": rng.randint(1, 500), "query": sentence(rng, PORTUGUESE)[:40]}, ensure_ascii=False
    )
    answer = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "search_orders", "arguments": arguments}}
        ],
    }
    return [answer, {"role": "tool", "tool_call_id": "call_1", "content": as_json(rng)[:2000]}]


def chat(rng: random.Random) -> Body:
    """One request's messages and tools, of one main kind, as a client would send it."""
    kind = rng.choice(list(KINDS))
    messages: list[Body] = [{"role": "system", "content": prose(rng, ENGLISH)}] if rng.random() < 0.6 else []
    tools = [tool(rng) for _ in range(rng.randint(1, 5))] if rng.random() < 0.25 else []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        messages.append({"role": "user", "content": KINDS[kind](rng)})
        messages += calls(rng) if tools and rng.random() < 0.5 else []
        messages.append({"role": "assistant", "content": KINDS[rng.choice((kind, "english"))](rng)})
    messages.append({"role": "user", "content": sentence(rng, PORTUGUESE if kind == "portuguese" else ENGLISH)})
    return {"messages": messages} | ({"tools": tools} if tools else {})


def chats(seed: int, n: int) -> Iterator[Body]:
    rng = random.Random(seed)
    return (chat(rng) for _ in range(n))
