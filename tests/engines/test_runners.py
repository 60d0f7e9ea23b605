from proxy.engines.runners import LEARNT_LIMIT, Runner, Runners
from proxy.records import Evidence, RequestFacts

WIDE = (("num_ctx", "8192"),)


def facts(model: str | None, dialect: str = "ollama", **options: str) -> RequestFacts:
    return RequestFacts(dialect, "chat", "inference", model=model, options=tuple(options.items()))


def test_all_spellings_of_a_name_are_one_runner() -> None:
    runners = Runners("ollama")
    same = {runners.of(facts(name)) for name in ("m", "M:latest", "library/m", "registry.ollama.ai/library/m:latest")}
    assert same == {Runner("m")}
    assert runners.of(facts("m:1b")) == Runner("m:1b")
    assert runners.waited_for({Runner("m"): 5}, facts("b"), frozenset({"M:latest"})) is None


def test_names_on_the_same_weights_share_a_runner() -> None:
    runners = Runners("ollama")
    assert runners.of(facts("a")) != runners.of(facts("b"))
    runners.made_of("a", "d1")
    runners.made_of("b:latest", "d1")
    assert runners.of(facts("a")) == runners.of(facts("b")) == Runner("d1")


def test_a_models_own_options_tell_runners_apart_on_every_route() -> None:
    runners = Runners("ollama")
    runners.made_of("a", "d")
    runners.made_of("wide", "d", (("num_ctx", "8192"),))
    for dialect in ("ollama", "openai"):
        assert (
            runners.of(facts("wide", dialect)) == Runner("d", (("num_ctx", "8192"),)) != runners.of(facts("a", dialect))
        )
    assert (
        runners.of(facts("wide", num_ctx="8192")) == runners.of(facts("wide")) == runners.of(facts("a", num_ctx="8192"))
    )
    assert runners.of(facts("wide", num_ctx="1", num_gpu="2")).options == (("num_ctx", "1"), ("num_gpu", "2"))


def test_options_tell_runners_apart_only_on_native_routes() -> None:
    runners = Runners("ollama")
    assert runners.of(facts("a", num_ctx="2048")) != runners.of(facts("a"))
    assert runners.of(facts("a", num_ctx="1", num_gpu="2")) == runners.of(facts("a", num_gpu="2", num_ctx="1"))
    assert runners.of(facts("a", "openai", num_ctx="2048")) == runners.of(facts("a"))


def test_other_engines_have_one_runner() -> None:
    runners = Runners("llamacpp", "b1", 4)
    assert runners.of(facts("a")) == runners.of(facts("b", num_ctx="1")) == Runner("")
    assert Runners("ollama").of(facts(None)) == Runner("")
    assert runners.evidence(Runner("")) == Evidence(kind="llamacpp", version="b1", slots=4)


def test_slots_are_learnt_upwards_until_the_engine_restarts() -> None:
    runners = Runners("ollama", "0.33.0")
    assert runners.slots(Runner("a")) is None
    for held in (1, 3, 2):
        runners.learn(Runner("a"), held)
    assert (runners.slots(Runner("a", (("num_ctx", "1"),))), runners.slots(Runner("b"))) == (3, None)
    assert runners.evidence(None) == Evidence(kind="ollama", version="0.33.0")
    runners.restarted("ollama", "0.34.0", None)
    assert runners.slots(Runner("a")) is None


def test_slots_that_are_set_are_not_learnt() -> None:
    runners = Runners("ollama", None, 2)
    runners.learn(Runner("a"), 5)
    assert runners.slots(Runner("a")) == 2


def test_only_ollamas_slots_are_learnt() -> None:
    runners = Runners("vllm")
    runners.learn(Runner(""), 5)
    assert runners.slots(Runner("")) is None


def test_a_rival_that_is_still_in_memory_had_not_to_go() -> None:
    runners = Runners("ollama")
    assert runners.waited_for({Runner("a"): 5}, facts("b"), frozenset({"b:latest"})) == 5
    assert runners.waited_for({Runner("a"): 5}, facts("b"), frozenset({"a:latest", "b:latest"})) is None
    runners.made_of("a", "d")
    runners.made_of("twin", "d")
    assert runners.waited_for({Runner("d"): 5}, facts("b"), frozenset({"twin:latest"})) is None
    assert runners.waited_for({Runner("a"): 5}, facts("b"), frozenset({"twin:latest"})) is None, (
        "known by its name then"
    )


def test_of_several_rivals_those_count_that_had_to_go_and_other_options_always_had() -> None:
    runners = Runners("ollama")
    rivals = {Runner("a", WIDE): 5, Runner("b"): 7, Runner("c"): 9}
    assert runners.waited_for(rivals, facts("a"), frozenset({"a:latest", "c:latest"})) == 7
    assert runners.waited_for(rivals, facts("a"), frozenset({"a:latest", "b", "c"})) == 5


def test_of_a_models_runners_one_at_most_is_in_memory() -> None:
    runners, resident = Runners("ollama"), frozenset({"a:latest", "b:latest"})
    rivals = {Runner("b", WIDE): 5, Runner("b"): 7, Runner("c"): 3}
    assert runners.waited_for(rivals, facts("a"), resident) == 5
    assert runners.waited_for({Runner("b"): 7}, facts("a"), resident) is None


def test_what_is_remembered_is_bounded() -> None:
    runners = Runners("ollama")
    for n in range(LEARNT_LIMIT + 10):
        runners.made_of(f"m{n}", "d")
        runners.learn(Runner(f"w{n}"), 1)
    assert runners.of(facts("m0")) == Runner("m0")
    assert runners.of(facts("m200")) == Runner("d")
    assert (runners.slots(Runner("w0")), runners.slots(Runner("w200"))) == (None, 1)
