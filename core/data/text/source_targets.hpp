// Documents for a model that reads a source and predicts a target: one sample each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chosen_documents.hpp"
#include "text/text_encoder.hpp"
#include "text/token_cache.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

// The samples of one source. Of a document whose first ids have no label, these are the source and the others
// the target; of any other document, which is a text, all ids are both. A sample has the ids of the source
// with an attention mask (S), and the target as labels (T): both as long as the sequence length, with padding
// that neither counts. A source or target that is longer is cut before the ids that end it, or behind those
// that begin it if the tokenizer truncates there, or its document is left out.
class SourceTargets final : public Dataset {
 public:
  // Throws INVALID_ARGUMENT if there is no sample.
  SourceTargets(TokenCache cache, std::string name, SampleOptions options, const TextEncoder& encoder);

  int64_t size() const override { return documents(); }
  std::string name() const override { return name_; }
  Batch get(const std::vector<int64_t>& indices) const override;

  int64_t documents() const { return static_cast<int64_t>(pairs_.size()); }
  int64_t too_long() const { return too_long_; }  // documents that were left out
  int64_t of_other_part() const { return of_other_part_; }
  int64_t without_label() const { return 0; }  // a target ends with a token
  int64_t cut() const { return cut_; }         // documents of which a part was cut off

 private:
  struct Pair {
    int64_t source, target, end;  // where they begin and end, as ids of the cache
  };
  Pair pair_of(int64_t document) const;
  // Writes ids from `begin` to `end` to a row: of too many those in front and the last `kept`, or those that
  // begin a sequence and the ones at the end. Returns their number.
  int64_t copy(int64_t begin, int64_t end, int64_t kept, int64_t* row) const;

  const TokenCache cache_;
  const std::string name_;
  const SampleOptions options_;
  const int64_t begin_;                    // the number of ids that begin a source
  const int64_t source_end_, target_end_;  // the number of ids that end a source and a target
  const bool truncates_left_;
  std::vector<Pair> pairs_;
  int64_t too_long_ = 0, of_other_part_ = 0, cut_ = 0;
};

}  // namespace weft::data
