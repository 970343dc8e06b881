# weft_warnings: the warnings of the project's own code, as errors. Link it PRIVATE.
add_library(weft_warnings INTERFACE)
target_compile_options(weft_warnings INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter)
