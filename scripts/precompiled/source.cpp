// A source for the targets that compile a header of headers/.
