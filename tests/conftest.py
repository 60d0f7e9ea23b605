"""Property tests promise results, not times, and the same ones on every run; `--hypothesis-profile=deep` searches."""

from hypothesis import HealthCheck, settings

STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("phasegate", STEADY)
settings.register_profile("deep", STEADY, derandomize=False, max_examples=3000)
settings.load_profile("phasegate")
