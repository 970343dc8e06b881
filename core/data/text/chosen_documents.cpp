#include "text/chosen_documents.hpp"

#include "base/text.hpp"
#include "loader/random.hpp"

namespace weft::data {

void refuse_without_documents(const TokenCache& cache, const std::string& name, int64_t too_long,
                              const SampleOptions& options) {
  if (cache.documents() == 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: no documents; the files are empty (--data)", name);
  if (too_long == 0)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: none of its {} documents is in the {} part; a file of text is one document: give JSON lines or "
         "several files, or another --held-out, which is {}",
         name, cache.documents(), options.part == Part::kHeldOut ? "held-out" : "training", options.held_out);
  fail(WEFT_INVALID_ARGUMENT,
       "{}: all {} documents are longer than --sequence-length {}; give a larger one, or --long-documents "
       "cut",
       name, too_long, options.sequence_length);
}

ChosenDocuments choose_documents(const TokenCache& cache, const std::string& name,
                                 const SampleOptions& options) {
  ChosenDocuments chosen;
  for (int64_t document = 0; document < cache.documents(); ++document) {
    if (options.part != Part::kAll &&
        is_held_out(document, options.held_out, options.seed) != (options.part == Part::kHeldOut)) {
      ++chosen.of_other_part;
      continue;
    }
    const bool is_long = cache.begin(document + 1) - cache.begin(document) > options.sequence_length;
    chosen.too_long += options.drop_long_documents && is_long;
    if (!options.drop_long_documents || !is_long) chosen.documents.push_back(document);
  }
  if (chosen.documents.empty()) refuse_without_documents(cache, name, chosen.too_long, options);
  return chosen;
}

}  // namespace weft::data
