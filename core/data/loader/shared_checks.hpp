// What several data sets check of their files and options. In messages `called` names the settings.
#pragma once

#include <cstdint>
#include <string>

#include "base/setting_name.hpp"
#include "base/text.hpp"
#include "weft/data/part.hpp"

namespace weft::data {

// Throws INVALID_ARGUMENT unless the share of `samples` ("documents") that is held out is at least 0 and less
// than 1, and more than 0 if a part is asked for.
inline void check_held_out(double held_out, Part part, const char* samples, const SettingName& called) {
  if (!(held_out >= 0 && held_out < 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be at least 0 and less than 1", called("held_out"), held_out);
  if (part != Part::kAll && held_out == 0)
    fail(WEFT_INVALID_ARGUMENT, "a part of the {} is asked for ({}), but none are held out; give {}", samples,
         called("part"), called("held_out"));
}

// Throws INVALID_ARGUMENT if the tokenizer `name` has ids that the model does not have. A `vocabulary` of 0
// is not known.
inline void check_ids_fit(const std::string& name, int64_t of_tokenizer, int64_t vocabulary) {
  if (vocabulary > 0 && of_tokenizer > vocabulary)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the tokenizer has ids up to {}, but the model's vocabulary has 0 to {}; use the tokenizer of "
         "this model (--tokenizer)",
         name, of_tokenizer - 1, vocabulary - 1);
}

// Throws NOT_FOUND if nothing exists at `path`, and INVALID_ARGUMENT if it is not a regular file.
void check_is_file(const std::string& path);

// Throws INVALID_ARGUMENT for a token that is outside the vocabulary.
[[noreturn]] void refuse_token(const std::string& path, const std::string& where, int64_t token,
                               int64_t vocabulary_size);

}  // namespace weft::data
