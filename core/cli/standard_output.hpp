// What the command prints on stdout, and whether all of it has got there.
#pragma once

namespace weft::cli {

// Makes every print on stdout go through one function, which remembers why a write failed and prints nothing
// more then. Opens the standard descriptors that are closed, so that no file which is opened later becomes
// one of them. Call it before anything is printed.
void begin_output();

// Writes what is buffered. Ends the verb with an error (fail_verb) if something could not be written. A pipe
// that nobody reads any more is no error.
void finish_output();

}  // namespace weft::cli
