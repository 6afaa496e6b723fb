"""The pages keep their word: tables are generated from the code, examples are run, links lead somewhere."""
