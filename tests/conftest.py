"""Property tests promise results, not times: a busy machine must not fail them."""

from hypothesis import HealthCheck, settings

settings.register_profile("phasegate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("phasegate")
