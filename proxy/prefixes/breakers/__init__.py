"""What keeps the prompts of one application from sharing what they have in common.

    documents       prompts with their moment and answer, and where two of them part
    families        which prompts are of one application
    talks           which prompt goes on where another one ended
    forms           the same text in two forms                          -> one form
    orders          the same items in another order                     -> one order
    placements      worked examples and images in the wrong place       -> the constant part first
    histories       earlier turns that came back changed                -> kept as they were
    rejoining       where two texts that parted come together again
    slots           a span that varies between constant text            -> moved to the end
    texts           documents and versions in such a place         -> behind the constant text; one version
    writing         how scripts write: words, ends of sentences, figures
    shapes          what values look like, and the labels before them
    numerals        numbers that go with the clock, with the day, or one way
    fields          values in a row: the lines of a record, the fields of a line
    values          what such a span is: a time, an id, a name ...
    proposals       all of these asked in turn
    counterfactual  the family run once more, mended
    finder          the search: propose, mend, run, keep what saves
    masks           excerpts without their content

A kind is no guess about texts that were seen somewhere: every repair is a function from prompts to prompts, and counts
for what the family saves when it is run with it.
"""
