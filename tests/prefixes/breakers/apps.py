"""Small made-up applications whose prompts break in a known way, or do not break at all.

Each application writes its requests twice from the same draws: as a careless client sends them, and as a mended one
would. What the mended ones save in an infinite cache is the truth that the search is held against.
"""

import json
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from uuid import UUID

from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.canon import render
from proxy.records import Message, Part, Prompt

WORDS = [
    "order",
    "parcel",
    "refund",
    "invoice",
    "customer",
    "window",
    "garden",
    "bicycle",
    "ticket",
    "station",
    "meeting",
    "manager",
    "policy",
    "deadline",
    "contract",
    "battery",
    "tariff",
    "meter",
    "account",
    "reply",
    "handle",
    "approve",
    "check",
    "return",
    "collect",
    "measure",
    "forward",
    "describe",
    "repeat",
    "confirm",
    "within",
    "before",
    "after",
    "without",
    "unless",
    "against",
    "every",
    "second",
    "written",
    "local",
    "public",
    "yellow",
    "narrow",
    "early",
    "spare",
    "quiet",
    "kitchen",
    "harbour",
    "valley",
    "engine",
    "ladder",
    "copper",
    "timber",
    "lantern",
    "orchard",
    "saddle",
    "thunder",
    "velvet",
    "walnut",
    "anchor",
    "basket",
    "candle",
    "desert",
    "effort",
    "fabric",
    "glacier",
    "hammer",
    "island",
    "jacket",
    "kernel",
    "lemon",
    "magnet",
    "needle",
    "oyster",
    "pepper",
    "quarter",
    "ribbon",
]
FIRST = [
    "Anna",
    "Bruno",
    "Carla",
    "Dmitri",
    "Elisa",
    "Farid",
    "Grace",
    "Hana",
    "Ivan",
    "Jonas",
    "Kofi",
    "Lena",
    "Maria",
    "Noor",
    "Olga",
    "Pedro",
    "Rita",
    "Sven",
    "Tiago",
]
LAST = [
    "Keller",
    "Barros",
    "Nguyen",
    "Okafor",
    "Lindqvist",
    "Moreira",
    "Sato",
    "Dubois",
    "Haddad",
    "Novak",
    "Silva",
    "Weber",
    "Rossi",
    "Tanaka",
]
START = datetime(2026, 3, 2, tzinfo=UTC)

Talk = list[Message]
Write = Callable[["Scene", bool], Prompt]


def sentence(draw: Random, words: int = 14) -> str:
    chosen = draw.choices(WORDS, k=words)
    return " ".join(chosen).capitalize() + f" {draw.randint(2, 90)} {draw.choice(WORDS)}."


def text(draw: Random, sentences: int, joined: str = " ") -> str:
    return joined.join(sentence(draw) for _ in range(sentences))


def say(role: str, *parts: str | Part) -> Message:
    return Message(role, tuple(Part("text", part) if isinstance(part, str) else part for part in parts))


@dataclass
class Scene:
    """One request's surroundings: what both the careless and the mended client draw from."""

    number: int
    at_s: float
    talk: int
    turn: int
    """Turns that went before in this conversation."""
    draw: Random
    """Fresh for this request, the same for both clients."""
    person: Random
    """The same for all requests of a conversation."""
    asked: list[str]
    """Questions of the conversation so far, this one last."""
    answers: list[str]

    @property
    def when(self) -> datetime:
        return START + timedelta(seconds=self.at_s)

    def history(self) -> Talk:
        talk: Talk = []
        for question, answer in zip(self.asked, self.answers, strict=False):
            talk += [say("user", question), say("assistant", answer)]
        return [*talk, say("user", self.asked[-1])]


@dataclass
class App:
    """One application: how its prompts are written."""

    name: str
    write: Write
    kinds: tuple[str, ...] = ()
    """What may be said of its breaker, the best word first; empty: it has none."""
    requests: int = 44
    turns: int = 1
    """Longest conversation."""
    gap_s: float = 900.0
    answer: Callable[[Random], str] = field(default=lambda draw: text(draw, 3))

    def documents(self, mended: bool) -> list[Document]:
        return [
            Document(f"{self.name}-{scene.number}", scene.at_s, 1, render(self.write(scene, mended)), answer)
            for scene, answer in self._scenes()
        ]

    def _scenes(self) -> Iterator[tuple[Scene, str]]:
        outer = Random(zlib.crc32(self.name.encode()))
        open_: list[tuple[int, list[str], list[str]]] = []
        at, talks = 0.0, 0
        for number in range(self.requests):
            at += outer.expovariate(1 / self.gap_s)
            alive = [talk for talk in open_ if len(talk[1]) < self.turns]
            if alive and outer.random() < 1 - 1 / self.turns:
                talk = outer.choice(alive)
            else:
                talks += 1
                talk = (talks, [], [])
                open_ = [*alive, talk][-4:]
            seed, person = outer.random(), Random(f"{self.name}{talk[0]}")
            draw = Random(seed)
            talk[1].append(sentence(draw, 9))
            scene = Scene(number, at, talk[0], len(talk[2]), draw, person, list(talk[1]), list(talk[2]))
            answer = self.answer(Random(seed + 1))
            talk[2].append(answer)
            yield scene, answer


@cache
def rules(name: str, sentences: int = 45, joined: str = "\n- ") -> str:
    draw = Random("rules" + name)
    return "Service rules:\n- " + text(draw, sentences, joined)


def intro(name: str) -> str:
    return f"You are the assistant of {name.replace('_', ' ').title()}. " + sentence(Random("intro" + name))


def spanned(name: str, template: str, value: Callable[[Scene], str], kinds: str, **more: object) -> App:
    """A system prompt with a value in a sentence of its own, which a mended client puts last."""

    def write(scene: Scene, mended: bool) -> Prompt:
        line = template.format(value(scene))
        system = f"{intro(name)}\n{rules(name)}" if mended else f"{intro(name)}\n{line}\n{rules(name)}"
        return Prompt(messages=(say("system", system), *scene.history()))

    return App(name, write, tuple(kinds.split()), **more)  # type: ignore[arg-type]


def transformed(name: str, change: Callable[[str], str], kinds: str, share: float = 0.5, **more: object) -> App:
    """A system prompt that some requests send in another form."""

    def write(scene: Scene, mended: bool) -> Prompt:
        system = accented(name) + "\n" + rules(name)
        if scene.draw.random() < share and not mended:
            system = change(system)
        return Prompt(messages=(say("system", system), *scene.history()))

    return App(name, write, tuple(kinds.split()), turns=6, **more)  # type: ignore[arg-type]


def accented(name: str) -> str:
    return f"{intro(name)} A cota\u00e7\u00e3o n\u00e3o \u00e9 v\u00e1lida \u00e0 noite; o limite \u00e9 1,500.00. "


def tool(draw: Random, name: str) -> dict[str, object]:
    properties = {draw.choice(WORDS): {"type": "string", "description": sentence(draw, 8)} for _ in range(3)}
    function = {
        "name": name,
        "description": sentence(draw, 12),
        "parameters": {"type": "object", "properties": properties},
    }
    return {"type": "function", "function": function}


def tools(name: str, count: int = 12) -> list[dict[str, object]]:
    draw = Random("tools" + name)
    return [tool(draw, f"{draw.choice(WORDS)}_{k}") for k in range(count)]


def shuffled_keys(value: object, draw: Random) -> object:
    if isinstance(value, dict):
        items = list(value.items())
        draw.shuffle(items)
        return {key: shuffled_keys(inner, draw) for key, inner in items}
    return value


def uuid(draw: Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def letters(draw: Random, count: int, of: str = "0123456789abcdef") -> str:
    return "".join(draw.choice(of) for _ in range(count))


def person(scene: Scene) -> str:
    return f"{scene.person.choice(FIRST)} {scene.person.choice(LAST)}"


# --- orders, placements, histories ------------------------------------------------------------------------------------


def _tool_order(scene: Scene, mended: bool) -> Prompt:
    found = [json.dumps(one) for one in tools("tool_order")]
    if not mended:
        scene.draw.shuffle(found)
    return Prompt(messages=(say("system", intro("tool_order")), *scene.history()), tools=tuple(found))


def _tool_keys(scene: Scene, mended: bool) -> Prompt:
    found = [one if mended else shuffled_keys(one, scene.draw) for one in tools("tool_keys")]
    return Prompt(messages=(say("system", intro("keys")), *scene.history()), tools=tuple(map(json.dumps, found)))


def _config_keys(scene: Scene, mended: bool) -> Prompt:
    config: object = {word: {"limit": k, "unit": word, "note": word * 2} for k, word in enumerate(WORDS[:30])}
    config = config if mended else shuffled_keys(config, scene.draw)
    system = f"{intro('config')}\nConfiguration:\n{json.dumps(config, indent=1)}\n{rules('config')}"
    return Prompt(messages=(say("system", system), *scene.history()))


def _examples(name: str, numbered: bool) -> Write:
    def write(scene: Scene, mended: bool) -> Prompt:
        draw = Random("examples" + name)
        found = [f"Input: {sentence(draw)}\nOutput: {sentence(draw, 6)}" for _ in range(10)]
        if not mended:
            scene.draw.shuffle(found)
        if numbered:
            found = [f"Example {k}:\n{one}" for k, one in enumerate(found, 1)]
        asked = "\n\n".join([intro(name), *found, f"Input: {scene.asked[-1]}\nOutput:"])
        return Prompt(texts=(asked,)) if name == "raw_examples" else Prompt(messages=(say("user", asked),))

    return write


def _drawn_examples(scene: Scene, mended: bool) -> Prompt:
    """Nine of ten examples, in any order."""
    draw = Random("drawn")
    found = [f"Input: {sentence(draw)}\nOutput: {sentence(draw, 6)}" for _ in range(10)]
    chosen = [found[k] for k in sorted(range(10), key=lambda _: scene.draw.random())[:9]]
    chosen = sorted(chosen, key=found.index) if mended else chosen
    return Prompt(messages=(say("system", "\n\n".join([intro("drawn"), *chosen])), say("user", scene.asked[-1])))


def _example_messages(scene: Scene, mended: bool) -> Prompt:
    draw = Random("pairs")
    pairs = [(say("user", sentence(draw, 20)), say("assistant", sentence(draw, 20))) for _ in range(10)]
    if not mended:
        scene.draw.shuffle(pairs)
    talk = [message for pair in pairs for message in pair]
    return Prompt(messages=(say("system", intro("pairs")), *talk, say("user", scene.asked[-1])))


def _documents(name: str, place: str) -> Write:
    def write(scene: Scene, mended: bool) -> Prompt:
        found = "\n\n".join(f"[{k}] {text(scene.draw, 5)}" for k in range(1, scene.draw.randint(3, 5)))
        head, tail = intro(name), rules(name, 30)
        docs = f"Context documents\n{found}"
        if place == "system":
            system = f"{head}\n\n{tail}\n\n{docs}" if mended else f"{head}\n\n{docs}\n\n{tail}"
            return Prompt(messages=(say("system", system), say("user", scene.asked[-1])))
        body = f"{tail}\n\n{docs}" if mended else f"{docs}\n\n{tail}"
        if place == "raw":
            return Prompt(texts=(f"{head}\n\n{body}\n\nQuestion: {scene.asked[-1]}\nAnswer:",))
        return Prompt(messages=(say("system", head), say("user", f"{body}\n\nQuestion: {scene.asked[-1]}")))

    return write


def _image(scene: Scene, mended: bool) -> Prompt:
    image = Part("image", f"data:image/png;base64,{letters(scene.draw, 60)}")
    words = rules("image", 30)
    parts = (words, image) if mended else (image, words)
    return Prompt(messages=(say("system", intro("image")), say("user", *parts)))


def _thinking(draw: Random) -> str:
    return f"<think>\n{text(draw, 6)}\n</think>\n\n{text(draw, 2)}"


def _stripped(scene: Scene, mended: bool) -> Prompt:
    talk = scene.history()
    if not mended:
        talk = [say(m.role, m.parts[0].text.split("</think>\n\n")[-1]) for m in talk]
    return Prompt(messages=(say("system", intro("stripped") + rules("stripped", 8)), *talk))


def _window(scene: Scene, mended: bool) -> Prompt:
    talk = scene.history()
    return Prompt(messages=(say("system", intro("window") + rules("window", 10)), *(talk if mended else talk[-7:])))


def _stamped(scene: Scene, mended: bool) -> Prompt:
    def stamp(k: int) -> str:
        at = scene.number if not mended else 100 * scene.talk + k // 2
        return f"[{at // 60 % 24:02}:{at % 60:02}] "

    talk = [
        say(m.role, (stamp(k) if m.role == "user" else "") + m.parts[0].text) for k, m in enumerate(scene.history())
    ]
    return Prompt(messages=(say("system", intro("stamped") + rules("stamped", 8)), *talk))


def _elided(scene: Scene, mended: bool) -> Prompt:
    """Retrieved text is taken out of older turns."""
    talk: Talk = []
    for k, question in enumerate(scene.asked):
        found = text(Random(f"{question}"), 12)
        full = mended or k == len(scene.asked) - 1
        talk.append(say("user", f"{question}\n\nContext:\n{found}" if full else question))
        if k < len(scene.answers):
            talk.append(say("assistant", scene.answers[k]))
    return Prompt(messages=(say("system", intro("elided") + rules("elided", 8)), *talk))


def _versions(count: int) -> Write:
    def write(scene: Scene, mended: bool) -> Prompt:
        draw = Random("versions")
        variants = [sentence(draw, 20) for _ in range(count)]
        variant = variants[0 if mended else scene.draw.randrange(count)]
        system = f"{intro('versions')}\n{variant}\n{rules('versions')}"
        return Prompt(messages=(say("system", system), *scene.history()))

    return write


def _time_ends(scene: Scene, mended: bool) -> Prompt:
    """The time closes the system prompt of a conversation."""
    now = "" if mended else f"\nCurrent time: {scene.when.isoformat()}"
    return Prompt(messages=(say("system", intro("ends") + rules("ends", 6) + now), *scene.history()))


def _time_before_tools(scene: Scene, mended: bool) -> Prompt:
    now = "" if mended else f"\nIt is {scene.when:%Y-%m-%d %H:%M}."
    found = tuple(map(json.dumps, tools("before", 10)))
    return Prompt(messages=(say("system", intro("before") + now), *scene.history()), tools=found)


def _time_in_tool(scene: Scene, mended: bool) -> Prompt:
    found = tools("inside", 10)
    note = "" if mended else f" The clock says {scene.when:%H:%M:%S}."
    found[1]["note"] = f"Books a visit.{note} Ask first."
    return Prompt(messages=(say("system", intro("inside")), *scene.history()), tools=tuple(map(json.dumps, found)))


def _no_lead(scene: Scene, mended: bool) -> Prompt:
    talk = scene.history()
    return Prompt(messages=tuple(talk if mended else talk[-5:]))


def _two(scene: Scene, mended: bool) -> Prompt:
    lines = "" if mended else f"Today is {scene.when:%Y-%m-%d}.\nRequest id: {uuid(scene.draw)}\n"
    return Prompt(messages=(say("system", f"{intro('two')}\n{lines}{rules('two')}"), *scene.history()))


def _some(scene: Scene, mended: bool) -> Prompt:
    line = "" if mended or scene.draw.random() < 0.4 else f"You are talking to {person(scene)}.\n"
    return Prompt(messages=(say("system", f"{intro('some')}\n{line}{rules('some')}"), *scene.history()))


def _image_asked(scene: Scene, mended: bool) -> Prompt:
    image = Part("image", f"https://pictures.example/{letters(scene.draw, 20)}.png")
    words = f"{rules('asked', 30)}\nQuestion: {scene.asked[-1]}"
    return Prompt(
        messages=(say("system", intro("asked")), say("user", *((words, image) if mended else (image, words))))
    )


def _profile(scene: Scene, mended: bool) -> Prompt:
    lines = f"Name: {person(scene)}\nCity: {scene.person.choice(WORDS).title()}\n"
    lead = f"{intro('profile')}\n"
    return Prompt(messages=(say("system", lead + ("" if mended else lines) + rules("profile")), *scene.history()))


def _template(scene: Scene, mended: bool) -> Prompt:
    """A time in front of a long form in the message of the user."""
    now = "" if mended else f"Sent {scene.when:%d.%m.%Y %H:%M:%S}\n"
    return Prompt(messages=(say("system", intro("form")), say("user", f"{now}{rules('form', 30)}\n{scene.asked[-1]}")))


def _locale(scene: Scene, mended: bool) -> Prompt:
    draw = Random("locale")
    lines = []
    comma = scene.draw.random() < 0.5 and not mended
    for _ in range(30):
        amount = f"{draw.randint(1_000, 90_000):,}.{draw.randint(10, 99)}"
        lines.append(
            f"{sentence(draw)} Price {amount.translate(str.maketrans(',.', '.,')) if comma else amount} euros."
        )
    return Prompt(messages=(say("system", intro("locale") + "\n".join(lines)), *scene.history()))


def _question_first(scene: Scene, mended: bool) -> Prompt:
    """The question stands before long instructions that never change."""
    asked, form = f"Question: {scene.asked[-1]}", rules("first", 40)
    return Prompt(messages=(say("user", f"{form}\n{asked}" if mended else f"{asked}\n{form}"),))


def _nonce_first(scene: Scene, mended: bool) -> Prompt:
    lead = "" if mended else f"x-trace: v=1; id={letters(scene.draw, 5)};\n"
    return Prompt(messages=(say("system", lead + "s " * 2_000), say("user", f"Say hi {scene.number}")))


def _docs_and_talk(scene: Scene, mended: bool) -> Prompt:
    """Documents found for the last question stand in the system prompt, before the conversation."""
    found = "Documents:\n" + text(scene.draw, 15)
    talk = scene.history()
    if mended:
        return Prompt(messages=(say("system", intro("found")), *talk, say("user", found)))
    return Prompt(messages=(say("system", f"{intro('found')}\n\n{found}"), *talk))


MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def long_date(scene: Scene) -> str:
    when = scene.when
    return f"{DAYS[when.weekday()]}, {MONTHS[when.month - 1]} {when.day}, {when.year}"


def grouped(form: str) -> Callable[[str], str]:
    def change(system: str) -> str:
        table = {",": form[0], ".": form[1]}
        return system.replace("1,500.00", "".join(table.get(letter, letter) for letter in "1,500.00"))

    return change


# --- other scripts, other places --------------------------------------------------------------------------------------


def han(draw: Random, sentences: int) -> str:
    """Sentences of a script that sets no blanks; the letters are drawn."""
    return "".join(
        "".join(chr(0x4E00 + draw.randrange(3_000)) for _ in range(draw.randint(9, 20))) + "\u3002"
        for _ in range(sentences)
    )


def unspaced(name: str, template: str, value: Callable[[Scene], str], kinds: str, **more: object) -> App:
    """A system prompt without a blank in it, a value in a sentence of its own."""

    def write(scene: Scene, mended: bool) -> Prompt:
        line = "" if mended else template.format(value(scene))
        head, tail = (han(Random(name + part), count) for part, count in (("head", 2), ("tail", 45)))
        return Prompt(messages=(say("system", f"{head}{line}{tail}"), say("user", han(scene.draw, 1))))

    return App(name, write, tuple(kinds.split()), **more)  # type: ignore[arg-type]


def han_name(scene: Scene) -> str:
    return "".join(chr(0x4E00 + scene.person.randrange(3_000)) for _ in range(3))


def arabic_clock(scene: Scene) -> str:
    return scene.when.strftime("%H:%M:%S").translate({ord(str(k)): chr(0x660 + k) for k in range(10)})


def _documents_message(scene: Scene, mended: bool) -> Prompt:
    """Documents in a message of their own, before the one with the instructions."""
    found, told = say("user", text(scene.draw, 20, "\n")), say("user", rules("message", 30))
    turns = (told, found) if mended else (found, told)
    return Prompt(messages=(say("system", intro("message")), *turns, say("user", scene.asked[-1])))


def _few_documents(scene: Scene, mended: bool) -> Prompt:
    """Documents from a small store: the same ones come back, first of all the most wanted."""
    found = "\n".join(f"[{k}] {text(Random(f'store{k}'), 9)}" for k in scene.draw.sample(range(8), 2))
    told = rules("store", 30)
    body = f"{told}\n{found}" if mended else f"{found}\n{told}"
    return Prompt(messages=(say("system", intro("store")), say("user", f"{body}\n\nQuestion: {scene.asked[-1]}")))


def _time_in_example(scene: Scene, mended: bool) -> Prompt:
    """The time ends a question among the worked examples."""
    draw = Random("timed")
    talk = [say(role, sentence(draw, 20)) for _ in range(10) for role in ("user", "assistant")]
    if not mended:
        talk[4] = say("user", f"{talk[4].parts[0].text} It is {scene.when.isoformat()}")
    return Prompt(messages=(say("system", intro("timed")), *talk, say("user", scene.asked[-1])))


def _two_images(scene: Scene, mended: bool) -> Prompt:
    images = [Part("image", f"https://pictures.example/{letters(scene.draw, 20)}.png") for _ in range(2)]
    words = rules("images", 30)
    return Prompt(
        messages=(say("system", intro("images")), say("user", *((words, *images) if mended else (*images, words))))
    )


def _rotated(scene: Scene, mended: bool) -> Prompt:
    """The first worked example is another one each time, under the number of its place on a line of its own."""
    draw = Random("rotated")
    found = [f"Input: {sentence(draw)}\nOutput: {sentence(draw, 6)}" for _ in range(9)]
    turn = 0 if mended else scene.number % 9
    shown = "\n\n".join(f"Example {k}\n{one}" for k, one in enumerate(found[turn:] + found[:turn], 1))
    return Prompt(texts=(f"{intro('rotated')}\n\n{shown}\n\nInput: {scene.asked[-1]}\nOutput:",))


def _flags(scene: Scene, mended: bool) -> Prompt:
    """Each of five lines is there or not."""
    draw = Random("flags")
    lines = [sentence(draw) for _ in range(5)]
    shown = "" if mended else "".join(f"\n- {line}" for line in lines if scene.person.random() < 0.5)
    return Prompt(
        messages=(say("system", f"{intro('flags')}\n- {sentence(draw)}{shown}\n{rules('flags')}"), *scene.history())
    )


def _some_in_prose(scene: Scene, mended: bool) -> Prompt:
    """Some requests have a label and a value in running words; nothing says where that ends."""
    name = "" if mended or scene.draw.random() < 0.4 else f"User {person(scene)} "
    return Prompt(
        messages=(say("system", f"{intro('prose')} {name}Be kind. {rules('prose', 60, ' ')}"), *scene.history())
    )


BROKEN = [
    spanned("iso_time", "Current time: {}", lambda s: s.when.isoformat(), "timestamp"),
    spanned("http_time", "Now it is {}.", lambda s: s.when.strftime("%a, %d %b %Y %H:%M:%S GMT"), "timestamp"),
    spanned("twelve_hours", "Local time is {}.", lambda s: s.when.strftime("%I:%M %p"), "timestamp"),
    spanned("epoch", "now={}", lambda s: str(int(s.when.timestamp())), "timestamp"),
    spanned("time_talks", "The time is {}.", lambda s: s.when.strftime("%d/%m/%Y %H:%M"), "timestamp", turns=5),
    spanned("iso_date", "Today is {}.", lambda s: s.when.strftime("%Y-%m-%d"), "date", gap_s=30_000),
    spanned("long_date", "Today is {}.", long_date, "date", gap_s=30_000),
    spanned("local_date", "Heute ist der {}.", lambda s: s.when.strftime("%d.%m.%Y"), "date", gap_s=30_000),
    spanned("request_uuid", "Request id: {}", lambda s: uuid(s.draw), "uuid"),
    spanned("trace_hex", "trace_id={}", lambda s: letters(s.draw, 32), "uuid nonce"),
    spanned("request_short", "Request: req_{}", lambda s: letters(s.draw, 12), "uuid nonce"),
    spanned("session_short", "Session: {}", lambda s: letters(s.person, 12), "session_id", turns=4, requests=90),
    spanned("session_uuid", "Reference {}", lambda s: uuid(s.person), "session_id", turns=4, requests=90),
    spanned("nonce_hex", "Cache buster: {}", lambda s: letters(s.draw, 10), "nonce"),
    spanned("nonce_number", "Seed {}.", lambda s: letters(s.draw, 9, "123456789"), "nonce"),
    spanned("counter_all", "This is request number {} today.", lambda s: str(s.number + 1), "counter"),
    spanned("counter_talk", "Turn {} of the conversation.", lambda s: str(s.turn + 1), "counter", turns=6),
    spanned("full_name", "You are talking to {}.", person, "user_name", turns=3),
    spanned("mail", "The user is {}.", lambda s: person(s).replace(" ", ".").lower() + "@example.org", "user_name"),
    spanned("handle", "Logged in as user {}.", lambda s: "".join(person(s).lower().split()) + "7", "user_name"),
    spanned("load", "Current load of the desk is {} percent.", lambda s: str(s.draw.randint(10, 99)), "other"),
    spanned("mood", "Answer in a {} tone.", lambda s: " ".join(s.draw.sample(WORDS, 2)), "other user_name"),
    transformed("grouping", grouped(".,"), "locale_number"),
    transformed("plain_number", lambda system: system.replace("1,500.00", "1500.00"), "locale_number"),
    transformed("line_ends", lambda system: system.replace("\n", "\r\n"), "whitespace"),
    transformed("double_blanks", lambda system: system.replace(". ", ".  ").replace("\n- ", "\n-  "), "whitespace"),
    transformed("blank_lines", lambda system: system.replace("\n", "\n\n"), "whitespace"),
    transformed("line_tails", lambda system: system.replace("\n", " \n"), "trailing_space whitespace"),
    transformed("text_tail", lambda system: system + " ", "trailing_space whitespace", requests=60),
    transformed("byte_order", lambda system: "\ufeff" + system, "bom"),
    transformed("composition", lambda system: unicodedata.normalize("NFD", system), "unicode_norm"),
    App("tool_order", _tool_order, ("tool_order",), turns=3),
    App("tool_keys", _tool_keys, ("json_key_order",), turns=3),
    App("config_keys", _config_keys, ("json_key_order",), turns=3),
    App("user_examples", _examples("user_examples", False), ("fewshot_order",)),
    App("raw_examples", _examples("raw_examples", False), ("fewshot_order",)),
    App("numbered_examples", _examples("numbered_examples", True), ("fewshot_order",)),
    App("drawn_examples", _drawn_examples, ("fewshot_order",), requests=60),
    App("example_messages", _example_messages, ("fewshot_order",)),
    App("documents_user", _documents("documents_user", "user"), ("docs_before_instructions",)),
    App("documents_system", _documents("documents_system", "system"), ("docs_before_instructions",)),
    App("documents_raw", _documents("documents_raw", "raw"), ("docs_before_instructions",)),
    App("image", _image, ("image_before_text",)),
    App("stripped", _stripped, ("think_stripped",), turns=6, requests=60, answer=_thinking),
    App("window", _window, ("history_truncated",), turns=10, requests=90),
    App("stamped", _stamped, ("timestamp",), turns=6),
    App("elided", _elided, ("history_truncated",), turns=6),
    App("two_versions", _versions(2), ("prompt_version",), turns=6),
    App("time_ends", _time_ends, ("timestamp",), turns=8),
    App("time_before_tools", _time_before_tools, ("timestamp",)),
    App("time_in_tool", _time_in_tool, ("timestamp",)),
    App("no_lead", _no_lead, ("history_truncated",), turns=12, requests=90),
    App("two", _two, ("uuid", "date")),
    App("some", _some, ("user_name",), turns=2),
    App("image_asked", _image_asked, ("image_before_text",)),
    App("profile", _profile, ("user_name", "other"), turns=2),
    App("template", _template, ("timestamp",)),
    App("locale", _locale, ("locale_number",), turns=6),
    App("question_first", _question_first, ("other", "docs_before_instructions")),
    App("nonce_first", _nonce_first, ("nonce", "uuid", "session_id"), requests=12),
    App("docs_and_talk", _docs_and_talk, ("docs_before_instructions",), turns=5),
    App("five_versions", _versions(5), ("prompt_version",), turns=4),
    unspaced("chinese_time", "\u73b0\u5728\u662f{}\u3002", lambda s: s.when.strftime("%H\u70b9%M\u5206"), "timestamp"),
    unspaced(
        "chinese_date",
        "\u4eca\u5929\u662f{}\u3002",
        lambda s: s.when.strftime("%Y\u5e74%m\u6708%d\u65e5"),
        "date",
        gap_s=30_000,
    ),
    unspaced("chinese_name", "\u5ba2\u6237\uff1a{}\u3002", han_name, "user_name"),
    spanned("arabic_time", "\u0627\u0644\u0633\u0627\u0639\u0629 {}.", arabic_clock, "timestamp"),
    spanned("hour_alone", "The hour is {}.", lambda s: str(s.when.hour), "timestamp", requests=90, gap_s=2_400),
    spanned("day_of_year", "Day {} of the year.", lambda s: s.when.strftime("%j"), "date", gap_s=30_000),
    spanned("budget", "Tokens left this month: {}.", lambda s: str(90_000 - 137 * s.number), "counter"),
    spanned("step_of", "Step {} of the plan.", lambda s: f"{s.turn + 1}/9", "counter", turns=9),
    App("documents_message", _documents_message, ("docs_before_instructions",)),
    App("few_documents", _few_documents, ("docs_before_instructions",), requests=60),
    App("time_in_example", _time_in_example, ("timestamp",)),
    App("two_images", _two_images, ("image_before_text",)),
    App("rotated", _rotated, ("fewshot_order",)),
    App("flags", _flags, ("prompt_version",), turns=2),
    App("some_in_prose", _some_in_prose, ("user_name",), turns=2),
]


# --- nothing to find --------------------------------------------------------------------------------------------------


def _clean(scene: Scene, mended: bool) -> Prompt:
    return Prompt(messages=(say("system", intro("clean") + rules("clean")), *scene.history()))


def _time_last(scene: Scene, mended: bool) -> Prompt:
    talk = scene.history()
    last = say("user", f"{scene.asked[-1]}\n\n(Current time: {scene.when.isoformat()})")
    return Prompt(messages=(say("system", intro("last") + rules("last")), *talk[:-1], last))


def _frozen(scene: Scene, mended: bool) -> Prompt:
    return Prompt(
        messages=(say("system", f"{intro('frozen')}\nBuilt 2026-03-01T08:00:00Z\n{rules('frozen')}"), *scene.history())
    )


def _short(scene: Scene, mended: bool) -> Prompt:
    return Prompt(messages=(say("user", f"ping {letters(scene.draw, 6)}, are you there?"),))


def _strangers(scene: Scene, mended: bool) -> Prompt:
    return Prompt(messages=(say("system", text(scene.draw, 15)), say("user", scene.asked[-1])))


def _replaced(scene: Scene, mended: bool) -> Prompt:
    line = "Never promise a refund." if scene.number < 30 else "Refunds need the approval of a manager."
    return Prompt(
        messages=(say("system", f"{intro('replaced')}\n{line}\n{rules('replaced')}"), say("user", scene.asked[-1]))
    )


def _edited_file(scene: Scene, mended: bool) -> Prompt:
    draw = Random("file")
    lines = [sentence(draw) for _ in range(60)]
    for edit in range(scene.number // 6):
        lines[Random(edit).randrange(60)] = sentence(Random(edit))
    return Prompt(messages=(say("system", intro("file")), say("user", "\n".join(lines) + f"\n\n{scene.asked[-1]}")))


def _data_ids(scene: Scene, mended: bool) -> Prompt:
    rows = [f"{scene.when.isoformat()} {uuid(scene.draw)} {scene.draw.choice(WORDS)}" for _ in range(30)]
    return Prompt(messages=(say("system", intro("rows") + rules("rows", 10)), say("user", "\n".join(rows))))


def _tool_results(scene: Scene, mended: bool) -> Prompt:
    """Another question, then the same results of the same tools."""
    draw = Random("results")
    results = [say("tool", text(draw, 8)) for _ in range(3)]
    talk = [say("user", scene.asked[-1])]
    for result in results:
        talk += [say("assistant", "Let me look that up."), result]
    return Prompt(messages=(say("system", intro("results")), *talk[: 2 * scene.draw.randint(1, 3) + 1]))


def _documents_last(scene: Scene, mended: bool) -> Prompt:
    found = "\n\n".join(f"[{k}] {text(scene.draw, 5)}" for k in range(1, 4))
    return Prompt(messages=(say("system", intro("late") + rules("late")), say("user", f"{found}\n\n{scene.asked[-1]}")))


def _chapters(scene: Scene, mended: bool) -> Prompt:
    chapter = scene.draw.randrange(5)
    return Prompt(messages=(say("system", text(Random(chapter), 50)), say("user", scene.asked[-1])))


def _canned(scene: Scene, mended: bool) -> Prompt:
    """Users ask one of a few questions, with a greeting of their own."""
    questions = [text(Random(k), 3) for k in range(6)]
    asked = f"{scene.draw.choice(['Hello', 'Good morning', 'Hi'])} {person(scene)} here. {scene.draw.choice(questions)}"
    return Prompt(messages=(say("system", intro("canned") + rules("canned")), say("user", asked)))


def _canned_long(scene: Scene, mended: bool) -> Prompt:
    """A few long questions without a full stop, each behind a greeting."""
    asked = " ".join(Random(scene.draw.randrange(5)).choices(WORDS, k=60))
    return Prompt(
        messages=(say("system", intro("canned") + rules("canned")), say("user", f"Hello {person(scene)} {asked}"))
    )


def _store_last(scene: Scene, mended: bool) -> Prompt:
    """Documents from a small store in the order of their fitness, where they belong: last."""
    found = "\n\n".join(f"[{k}] {text(Random(f'doc{k}'), 6)}" for k in scene.draw.sample(range(14), 4))
    return Prompt(
        messages=(say("system", intro("last")), say("user", f"{rules('last', 20)}\n\n{found}\n\n{scene.asked[-1]}"))
    )


def _text_first(scene: Scene, mended: bool) -> Prompt:
    """A new text, then a dozen words of instruction."""
    return Prompt(
        messages=(say("user", f"{text(scene.draw, 20)}\n\nTranslate the text above into French. Keep all names."),)
    )


def _agent(scene: Scene, mended: bool) -> Prompt:
    """A loop that only appends, with tools."""
    found = tuple(map(json.dumps, tools("agent", 6)))
    return Prompt(messages=(say("system", intro("agent") + rules("agent", 10)), *scene.history()), tools=found)


def _regenerated(scene: Scene, mended: bool) -> Prompt:
    """People go back, edit an earlier question and ask again; then go on where they were."""
    talk = scene.history()
    if scene.turn and scene.draw.random() < 0.4:
        talk = [*talk[:-3], say("user", talk[-3].parts[0].text.replace("a", "b", 3))]
    return Prompt(messages=(say("system", intro("again") + rules("again")), *talk))


CLEAN = [
    App("clean", _clean),
    App("clean_talks", _clean, turns=6),
    App("time_last", _time_last),
    App("frozen", _frozen, turns=3),
    App("short", _short),
    App("strangers", _strangers),
    App("replaced", _replaced),
    App("edited_file", _edited_file),
    App("data_ids", _data_ids),
    App("tool_results", _tool_results),
    App("documents_last", _documents_last),
    App("chapters", _chapters),
    App("canned", _canned),
    App("canned_long", _canned_long, requests=60),
    App("store_last", _store_last, requests=60),
    App("text_first", _text_first),
    App("agent", _agent, turns=8, answer=lambda draw: text(draw, 1)),
    App("regenerated", _regenerated, turns=4),
]
