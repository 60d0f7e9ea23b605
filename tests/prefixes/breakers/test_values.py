import pytest

from proxy.prefixes.breakers.values import Values, kind_of, recurs

HOUR = 3_600.0


def seen(*texts, label="", every_s=HOUR, talks=None, behind=""):
    times = tuple(every_s * k for k in range(len(texts)))
    wide = tuple(text + behind for text in texts)
    return Values(texts, wide, times, tuple(talks or range(len(texts))), label)


HEX = ("8f3ac2d19b", "77ab01c9ef", "c3d4e5f6a7", "19af83bc20")
UUIDS = tuple(f"68bb9459-9417-400f-a085-679df947555{k}" for k in range(4))
NAMES = ("Patel", "Thornton", "Finch", "Weber", "Nyman", "Reyes", "Kaya", "Chu")
TALKS = [k // 9 for k in range(72)]
DOCUMENT = " ".join(["words"] * 50)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (seen(*[f"{word}\n// {word[::-1]}" for word in HEX], label="request: "), "nonce"),
        (seen(*[f'{9 + k}:15", "id": "{one}", "n": "Li' for k, one in enumerate(UUIDS)]), "uuid"),
        (
            seen(*[f"{one} | {name} | 1{k}:15" for k, (one, name) in enumerate(zip(UUIDS, NAMES[:4], strict=True))]),
            "timestamp",
        ),
        (seen(*[f"plan=free user={name}" for name in NAMES]), "user_name"),
        (seen(*[f"In {year} it was found. {DOCUMENT}" for year in (1990, 1991, 1990)]), "prompt_version"),
        (seen(*["\n".join(f"{k}: {one}" for k in range(4)) for one in UUIDS]), "uuid"),
        (seen(*[f"It was {k} of {1990 + k}. " * 9 for k in range(9)]), "docs_before_instructions"),
        (seen("r7101374390763079", "r2101374390763071", "r9101374390763070", label="| uuid | "), "uuid"),
        (seen("10:15", "11:15", "12:20"), "timestamp"),
        (seen("2026-03-02T10:15:00Z", "2026-03-02T11:15:00Z"), "timestamp"),
        (seen("2026-03-02 10:15", "2026-03-02 10:15", talks=(1, 1)), "timestamp"),
        (seen("1772445600", "1772449200", "1772452800"), "timestamp"),
        (seen("3 PM", "4 PM", "5 PM"), "timestamp"),
        (seen("2026-03-02", "2026-03-03"), "date"),
        (seen("02", "03", "04", behind=".03.2026."), "date"),
        (seen("2", "2", "3", "3", behind=" March 2026", every_s=12 * HOUR), "date"),
        (seen("4", "5", "8", behind=", 2026.", label="Today is May ", every_s=1), "date"),
        (seen("4", "5", "8", behind=" of 2026.", label="Request ", every_s=1), "counter"),
        (seen("Monday, May 4", "Tuesday, May 5", "Friday, May 8", behind=", 2026.", every_s=1), "date"),
        (seen("4", "5", "8", behind=" de mayo de 2026", every_s=1), "date"),
        (seen("Monday", "Monday", "Tuesday", "Tuesday", every_s=12 * HOUR), "date"),
        (seen("2026\u5e743\u67082\u65e5", "2026\u5e743\u67083\u65e5"), "date"),
        (seen("1", "2", "3", "4"), "counter"),
        (seen("1", "1", "2", "2", talks=(1, 2, 1, 2)), "counter"),
        (seen("1", "1", "2", "1", "3", "2", "4", label="Turn "), "counter"),
        (seen("free", "team", "trial", "starter", label="The account of the user has the ", behind=" plan."), "other"),
        (seen("anna.l", "bruno.k", "carla.b", behind="@mail.example"), "user_name"),
        (seen("anna.l", "bruno.k", "carla.b", label="Basalt Seeds: ", behind="@mail.example"), "user_name"),
        (seen("anna", "bruno", "carla", label="cache_salt="), "nonce"),
        (seen(*"abcd" * 4, every_s=1, talks=[k // 4 for k in range(16)]), "counter"),
        (seen(*"abcd" * 4, every_s=1, talks=[k % 4 for k in range(16)]), "prompt_version"),
        (seen("2/12", "3/12", "4/12", "5/12", label="Step "), "counter"),
        (seen("19910", "19850", "19790", label="Tokens left: "), "counter"),
        (seen("2026-00911", "2026-00912", "2026-00913", label="Ticket "), "counter"),
        (seen("61", "61", "62", "62", "63", every_s=12 * HOUR, label="Day "), "date"),
        (seen("\u0661\u0660:\u0661\u0665", "\u0661\u0661:\u0661\u0665"), "timestamp"),
        (seen("\u661f\u671f\u4e00", "\u661f\u671f\u4e00", "\u661f\u671f\u4e8c", every_s=12 * HOUR), "date"),
        (seen(*"aabbccdd" * 6, every_s=HOUR * 3), "timestamp"),
        (
            seen(*"aaaabbbbccccddddbbbbeeeeaaaaddddccccbbbb", every_s=HOUR / 4, talks=[k // 4 for k in range(40)]),
            "prompt_version",
        ),
        (seen("81.20 EUR", "79.10 EUR", "83.55 EUR", "80.01 EUR"), "other"),
        (seen("47.10213, 8.55312", "12.04410, -77.01231", "5.60372, -0.18696"), "other"),
        (seen("0.8372837261523", "0.1672837261555", "0.92736482736"), "nonce"),
        (seen("birch-delta-flint", "amber-robin-tulip", "olive-quartz-zebra", label="nonce: "), "nonce"),
        (seen("Oslo, north", "Lima, centre", "Cairo, harbour", label="Place: "), "other"),
        (seen("\u738b\u5c0f\u660e", "\u674e\u4e3d\u534e", "\u5f20\u4f1f"), "user_name"),
        (seen("a b c\n- d e f.", "d e f", "a b c", "g h i\n- d e f", "a b c\n- g h i"), "prompt_version"),
        (seen(*["\u9662" * 90 + str(k) for k in range(9)]), "docs_before_instructions"),
        (seen(*UUIDS), "uuid"),
        (seen("01J9ZQ4T7K3M5N6P8R9S0T1V2W", "01J9ZQ4T7K3M5N6P8R9S0T1V2X"), "uuid"),
        (seen(*HEX, label="Request: "), "uuid"),
        (seen(*HEX, label="Session: "), "session_id"),
        (seen(UUIDS[0], UUIDS[1], UUIDS[0], UUIDS[1], talks=(1, 2, 1, 2)), "session_id"),
        (seen(*HEX), "nonce"),
        (seen(*HEX, label="nonce="), "nonce"),
        (seen("837291834", "123987213", "998123764", "100293847"), "nonce"),
        (seen("12", "71", "45", "8", label="Seed "), "nonce"),
        (seen("12", "71", "45", "8", label="Load "), "other"),
        (seen("12", "71", "45", "8", label="Semente: "), "nonce"),
        (seen("12", "71", "45", "8", label="\u968f\u673a\u79cd\u5b50\uff1a"), "nonce"),
        (seen(*(f"amber-{letter}{letter}-otter" for letter in "bdfhnrsz")), "nonce"),
        (seen("\u2600\u2602\u2603", *(f"\u2600{chr(0x2610 + k)}\u2603" for k in range(8))), "nonce"),
        (seen(*["\u2600\u2602\u2603", "\u2603\u2602\u2600"] * 4), "prompt_version"),
        (seen(*HEX, label="Anfrage-ID: "), "uuid"),
        (seen(*HEX, label="\u8bf7\u6c42\u7f16\u53f7\uff1a"), "uuid"),
        (seen(*(f"req_{word}" for word in HEX)), "uuid"),
        (seen("Karen", "Oslo", "Lima", "Quito", label="\u6240\u5728\u5730\uff1a"), "other"),
        (seen("Anna Keller", "Bruno Barros", "Carla Okafor"), "user_name"),
        (seen("Anna Keller, since 2019", "Bruno Barros, since 2021"), "user_name"),
        (seen("anna@example.org", "bruno@example.org"), "user_name"),
        (seen("annakeller7", "brunobarros7", "carla8", label="The user is "), "user_name"),
        (seen(*HEX, *HEX, label="You are talking to ", talks=(1, 2, 3, 4) * 2), "user_name"),
        (seen("cust-10210", "cust-10231", "cust-10217", label="Voc\u00ea est\u00e1 falando com "), "user_name"),
        (seen(*(f"chatcmpl-{word}" for word in HEX), label="X-Request-ID: "), "uuid"),
        (seen("48213", "99121", "77101", label="customer id: "), "user_name"),
        (seen(*[f"for {len(word) % 2} euros\n<!-- {word} -->" for word in HEX]), "nonce"),
        (seen(*[f"{len(word)}. March 2026\nnonce: {word}" for word in (*HEX, "8f3ac2d19")]), "nonce"),
        (
            seen(*[f"be kind {k}\nlong: {word}" for k, word in enumerate(("ten words", "all words"))] * 2),
            "prompt_version",
        ),
        (
            seen(*(name for name in NAMES for _ in range(9)), talks=TALKS, every_s=HOUR / 4, label="Client: "),
            "user_name",
        ),
        (seen("be kind and brief", "be bold", "be kind and brief"), "prompt_version"),
        (seen("be kind and brief", "be bold and long", "be dull"), "other"),
        (
            seen(*["\u5ba2\u6237\u7b49\u5019" * 5, "\u5c01\u597d\u6837\u54c1" * 5] * 2, label="\u5ba2\u6237\u3001"),
            "prompt_version",
        ),
        (seen(f"{DOCUMENT} a", f"{DOCUMENT} b", f"{DOCUMENT} c"), "docs_before_instructions"),
        (seen(f"{DOCUMENT} a", f"{DOCUMENT} b", f"{DOCUMENT} a"), "prompt_version"),
    ],
)
def test_a_value_is_known_by_its_form_and_by_how_it_changes(values, kind):
    assert kind_of(values) == kind


@pytest.mark.parametrize(
    "text", ["-" * 100_000 + "\u00e9", "_" * 100_000, "1.1" + " " * 100_000 + "words", "9" * 100_000]
)
def test_text_that_is_made_to_be_slow_is_not(text):
    assert kind_of(seen(text, text + "a", text + "b"))


def test_a_prompt_that_was_edited_will_not_vary_again():
    assert not recurs(seen("never promise a refund", "refunds need approval", "refunds are fine"))
    assert not recurs(seen("the same", "the same"))


def test_what_is_new_each_day_will_be_new_tomorrow():
    assert recurs(seen("81.2 a", "81.2 a", "79.1 a", "79.1 a", "83.5 a", every_s=12 * HOUR))
    assert not recurs(seen("81.2 a", "81.2 a", "81.2 a", "79.1 a", "83.5 a", every_s=12 * HOUR))


def test_what_a_program_writes_what_comes_back_and_what_is_many_will():
    assert recurs(seen("2026-03-02", "2026-03-03"))
    assert recurs(seen("be kind", "be bold", "be kind"))
    assert recurs(seen("be a", "be b", "be c", "be d"))
