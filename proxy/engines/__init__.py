"""What an engine tells about itself, and what its traffic tells. Pure.

fingerprint   which engine answers here: kind, version, slots, models, windows
runners       what works on requests inside it: weights, options, slots set or learnt
gauges        its own metrics, as text
inside        its own pages of JSON: slots, load, models in memory
lists         the model lists of several engines, told as one
values        what all of these take out of JSON
inflight      the exchanges it has in flight, and the evidence each one leaves with
"""
