import pytest

from proxy.wire.routes import INFERENCE, MANAGED_GETS, READS, Route, classify


@pytest.mark.parametrize(("path", "what"), INFERENCE.items(), ids=list(INFERENCE))
def test_inference_routes_are_inference_by_post_alone(path, what):
    assert classify("POST", path) == Route(*what, "inference")
    assert classify("GET", path).route == "read"
    assert classify("DELETE", path).route == "manage"


@pytest.mark.parametrize(
    ("path", "dialect", "kind"),
    [
        ("/v1/chat/completions", "openai", "chat"),
        ("/v1/completions", "openai", "completion"),
        ("/v1/embeddings", "openai", "embed"),
        ("/v1/responses", "responses", "chat"),
        ("/v1/messages", "anthropic", "chat"),
        ("/api/chat", "ollama", "chat"),
        ("/api/generate", "ollama", "generate"),
        ("/api/embed", "ollama", "embed"),
        ("/completion", "llamacpp", "completion"),
        ("/infill", "llamacpp", "infill"),
        ("/generate", "sglang", "generate"),
        ("/v1/audio/transcriptions", "passthrough", "audio"),
    ],
)
def test_a_path_has_its_dialect(path, dialect, kind):
    assert classify("post", path) == Route(dialect, kind, "inference")


@pytest.mark.parametrize("path", sorted(READS))
def test_posts_that_look_something_up_are_reads(path):
    assert classify("POST", path).route == "read"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics",
        "/health",
        "/version",
        "/load",
        "/slots",
        "/props",
        "/api/ps",
        "/api/version",
        "/v1/models/m:1",
        "/server_info",
        "/lora-adapters",
        "/v1/responses/resp_1",
        "/api/tags",
        "/nobody/knows",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_looking_is_a_read(method, path):
    assert classify(method, path).route == "read"


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/api/tags"])
def test_model_lists_have_a_kind_of_their_own(path):
    assert classify("GET", path).kind == "models"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/pull"),
        ("POST", "/api/push"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/blobs/sha256-abc"),
        ("POST", "/sleep"),
        ("POST", "/wake_up"),
        ("POST", "/reset_prefix_cache"),
        ("POST", "/v1/load_lora_adapter"),
        ("POST", "/scale_elastic_ep"),
        ("POST", "/collective_rpc"),
        ("POST", "/slots/0"),
        ("POST", "/lora-adapters"),
        ("POST", "/props"),
        ("POST", "/models/load"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/nobody/knows"),
        ("PUT", "/api/chat"),
        *(("GET", path) for path in sorted(MANAGED_GETS)),
    ],
)
def test_what_changes_the_engine_is_management(method, path):
    assert classify(method, path).route == "manage"


@pytest.mark.parametrize(
    ("method", "path", "whose"),
    [
        ("GET", "/props", "llamacpp"),
        ("POST", "/props/", "llamacpp"),
        ("HEAD", "/slots", "llamacpp"),
        ("POST", "/slots/0", "llamacpp"),
        ("POST", "/apply-template", "llamacpp"),
        ("GET", "/get_server_info", "sglang"),
        ("GET", "/v1/loads", "sglang"),
        ("GET", "/version", "vllm"),
        ("GET", "/slots/0/x", "passthrough"),
        ("GET", "/slotsome", "passthrough"),
        ("GET", "/metrics", "passthrough"),
        ("POST", "/tokenize", "passthrough"),
    ],
)
def test_a_path_of_one_kind_of_engine_is_in_its_language(method, path, whose):
    assert classify(method, path).dialect == whose


def test_ollama_management_streams_in_ollamas_language():
    assert classify("POST", "/api/pull") == Route("ollama", "other", "manage")
    assert classify("GET", "/api/nope").dialect == "ollama"


@pytest.mark.parametrize("path", ["/api/v1/models", "/api/v0/models", "/api/extra/version", "/v1/nope", "/x"])
def test_other_paths_are_passed_through(path):
    assert classify("GET", path) == Route("passthrough", "other", "read")


def test_a_path_may_name_its_model():
    assert classify("GET", "/v1/models/org/m:1") == Route("passthrough", "other", "read", "org/m:1")
    assert classify("GET", "/v1/models/").model is None
    assert classify("DELETE", "/v1/models/m").model is None


def test_whether_ollama_is_there_is_asked_in_its_language():
    assert (classify("HEAD", "/").dialect, classify("GET", "/").dialect) == ("ollama", "passthrough")


def test_a_slash_at_the_end_hides_nothing():
    assert classify("POST", "/v1/chat/completions/").route == "inference"


def test_escapes_are_undone_before_and_not_again():
    assert classify("POST", "/v1/chat%2Fcompletions").route == "manage"


def test_rendering_is_a_read_and_counting_speaks_anthropic():
    assert classify("POST", "/v1/chat/completions/render").route == "read"
    assert classify("POST", "/v1/messages/count_tokens") == Route("anthropic", "other", "read")
