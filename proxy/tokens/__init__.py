"""What a prompt costs, known before it is sent; and how wrong that knowledge can be.

    vocabularies    which vocabularies are shipped, and how one is loaded
    pieces          a text cut into pieces of bounded work
    shapes          what is measured of a text: its tokens by our vocabulary, its characters by class
    cache           shapes by keyed hash, bounded in bytes
    meter           shell: texts -> shape; small ones at once, large ones off the loop
    sample          a prompt's shape as the regression reads it
    calibration     what answers teach: weights, and a band that holds the truth
    exact           the engine's own tokenizer, asked in its own words
    hf              a local tokenizer.json (extra `hf`)
    truncation      did the engine read the prompt that was sent?
    desk            shell: RequestFacts -> TokenCount, answer -> lesson

Flow: the desk takes a prompt's texts to the meter, adds up the shapes to a sample, and has the model's calibration say
how many tokens the engine will find. The answer's usage goes back to the calibration.

Cost follows the new text: every piece is measured once, however often it is sent again.
"""
