"""Tests of phasegate; they mirror `proxy/` file by file."""
