#include "text/encoded_text.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "loader/mixture.hpp"
#include "loader/shared_checks.hpp"
#include "text/sentence_pairs.hpp"
#include "text/source_targets.hpp"
#include "text/text_files.hpp"
#include "text/text_samples.hpp"
#include "text/tokenize.hpp"

namespace weft::data {

namespace {

void check(const std::vector<TextSource>& sources, const TextEncoder& encoder, const TextOptions& options) {
  if (sources.empty()) fail(WEFT_INVALID_ARGUMENT, "no text was given (--data)");
  check_ids_fit(encoder.name, encoder.vocabulary_size, options.vocabulary);
  check_held_out(options.held_out, options.part, "documents", flag_name);
  for (const TextSource& source : sources) {
    if (source.weight.has_value() != sources.front().weight.has_value())
      fail(WEFT_INVALID_ARGUMENT, "{} has {} weight, but {} has {}; give all of a mixture a weight, or none",
           source.path, source.weight ? "a" : "no", sources.front().path, source.weight ? "none" : "one");
    if (source.weight && !(std::isfinite(*source.weight) && *source.weight > 0))
      fail(WEFT_INVALID_ARGUMENT, "{}: its weight is {}, must be more than 0", source.path, *source.weight);
  }
}

// Returns how pairs are joined, if samples are pairs. Throws unless encoder and options make them.
std::optional<PairFormat> checked_pair_format(const TextEncoder& encoder, const TextOptions& options) {
  if (options.sentence_labels.empty()) return std::nullopt;
  if (options.packing != Packing::kDocuments)
    fail(WEFT_INVALID_ARGUMENT,
         "a pair of sentences is a sample of its own, so that documents are not packed; leave out --packing");
  if (options.positions)
    fail(WEFT_INVALID_ARGUMENT,
         "pairs of sentences have no positions, because each is a sample of its own; set "
         "TextOptions::positions to false");
  if (options.labels)
    fail(WEFT_INVALID_ARGUMENT,
         "samples of text have the labels of pairs of sentences, or those of their tokens: with "
         "TextOptions::sentence_labels, set TextOptions::labels to false");
  if (!encoder.pair_format)
    fail(WEFT_INVALID_ARGUMENT,
         "{} reads bytes, and next-sentence prediction needs a tokenizer that joins two sequences with a "
         "token between them; give the folder of one with --tokenizer",
         encoder.name);
  return encoder.pair_format();
}

// Prints what was left out of the samples of a source: TextSamples or SentencePairs.
template <class Samples>
void tell_what_is_left_out(const Samples& samples, const nlohmann::json& made, const TextOptions& options) {
  if (!options.note) return;
  if (const int64_t broken = made.value("broken_lines", int64_t{0}); broken > 0)
    options.note(fmt::format("{}: {} broken line{} skipped, the first is {}", samples.name(), broken,
                             broken == 1 ? "" : "s", made.value("first_broken", "")));
  if (const int64_t empty = made.value("empty_documents", int64_t{0}); empty > 0)
    options.note(
        fmt::format("{}: {} empty document{} left out", samples.name(), empty, empty == 1 ? "" : "s"));
  if (samples.too_long() > 0)
    options.note(fmt::format("{}: {} of {} documents left out, which are longer than {} tokens",
                             samples.name(), samples.too_long(), samples.too_long() + samples.documents(),
                             options.sequence_length));
  if (samples.without_label() > 0)
    options.note(
        fmt::format("{}: {} of {} samples of {} tokens left out, which have no label, as those that a "
                    "prompt fills",
                    samples.name(), samples.without_label(), samples.without_label() + samples.size(),
                    options.sequence_length));
  if constexpr (requires { samples.cut(); })
    if (samples.cut() > 0)
      options.note(
          fmt::format("{}: {} of {} documents have a prompt or an answer of more than {} tokens, of which "
                      "the rest is cut off",
                      samples.name(), samples.cut(), samples.documents(), options.sequence_length));
  if (options.part == Part::kTraining && samples.of_other_part() == 0)
    options.note(fmt::format(
        "{}: nothing is held out of it: none of its {} documents was drawn by --held-out {}; a file "
        "of text is one document, so give JSON lines or several files",
        samples.name(), samples.documents(), options.held_out));
}

TokenCache tokens_of(const TextSource& source, const TextFiles& files, const TextEncoder& encoder,
                     const TextOptions& options) {
  TokenCache cache = tokenize(files, encoder,
                              {options.skip_broken_lines, options.threads, options.timeout, options.progress,
                               options.note, options.source_and_target});
  if (!options.labels && !cache.unlabelled_from(0).empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: it has prompts or messages, whose labels are those of the answers alone, but this objective "
         "(--objective) makes labels of its own; give {{\"text\": ...}}",
         source.path);
  return cache;
}

SampleOptions sample_options(const TextEncoder& encoder, const TextOptions& options) {
  return {.sequence_length = options.sequence_length,
          .packing = options.packing,
          .drop_long_documents = options.drop_long_documents,
          .held_out = options.held_out,
          .part = options.part,
          .seed = options.seed,
          .labels = options.labels,
          .positions = options.positions,
          .attention = options.attention,
          .padding = encoder.padding,
          .pads_left = encoder.pads_left};
}

// Returns the files of a source, and prints which files of a folder are not among them.
TextFiles files_of(const TextSource& source, const TextOptions& options) {
  TextFiles files = find_text_files(source.path);
  const std::string left_out = line_of_left_out(files);
  if (options.note && !left_out.empty()) options.note(left_out);
  return files;
}

// Makes the samples of a source: `make` returns those of its tokens.
template <class Make>
auto open_source(TokenCache cache, const TextEncoder& encoder, const TextOptions& options, const Make& make) {
  const auto made = nlohmann::json::parse(cache.description());
  auto samples = make(std::move(cache), sample_options(encoder, options));
  tell_what_is_left_out(*samples, made, options);
  return samples;
}

// Makes the samples of a source of prompts or chats for an encoder and a decoder.
std::shared_ptr<Dataset> open_pairs(const TextSource& source, TokenCache cache, const TextEncoder& encoder,
                                    const TextOptions& options) {
  if (options.packing == Packing::kStream)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: an encoder reads each prompt by itself, so that each completion is a sample; leave out "
         "--packing",
         source.path);
  return open_source(
      std::move(cache), encoder, options, [&](TokenCache tokens, const SampleOptions& samples) {
        return std::make_shared<SourceTargets>(std::move(tokens), source.path, samples, encoder);
      });
}

}  // namespace

TextEncoder byte_encoder() {
  TextEncoder encoder;
  encoder.encode = [](std::string_view text) {
    TextEncoder::Ids ids(text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  };
  encoder.vocabulary_size = 256;
  encoder.name = "a model without a tokenizer";
  encoder.digest = "bytes";
  return encoder;
}

std::shared_ptr<Dataset> open_encoded_text(const std::vector<TextSource>& sources, const TextEncoder& encoder,
                                           const TextOptions& options) {
  check(sources, encoder, options);
  const std::optional<PairFormat> pairs = checked_pair_format(encoder, options);
  std::vector<TokenCache> caches;
  caches.reserve(sources.size());
  for (const TextSource& source : sources)
    caches.push_back(tokens_of(source, files_of(source, options), encoder, options));
  // If one source has prompts, the samples of all others have the same fields.
  const bool has_prompts = std::any_of(caches.begin(), caches.end(), [](const TokenCache& cache) {
    return !cache.unlabelled_from(0).empty();
  });
  std::vector<std::shared_ptr<Dataset>> opened;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TextSource& source = sources[i];
    TokenCache& tokens = caches[i];
    if (options.source_and_target && has_prompts)
      opened.push_back(open_pairs(source, std::move(tokens), encoder, options));
    else if (pairs)
      opened.push_back(open_source(
          std::move(tokens), encoder, options, [&](TokenCache cache, const SampleOptions& samples) {
            return std::make_shared<SentencePairs>(std::move(cache), source.path, samples, encoder, *pairs,
                                                   options.sentence_labels);
          }));
    else
      opened.push_back(open_source(
          std::move(tokens), encoder, options, [&](TokenCache cache, const SampleOptions& samples) {
            return std::make_shared<TextSamples>(std::move(cache), source.path, samples);
          }));
  }
  if (opened.size() == 1) return opened.front();
  if (!sources.front().weight) return concatenation(opened);
  std::vector<MixturePart> parts;
  for (size_t i = 0; i < opened.size(); ++i) parts.push_back({opened[i], *sources[i].weight});
  return mixture(parts, options.seed);
}

std::shared_ptr<TextDocuments> open_encoded_documents(const std::vector<TextSource>& sources,
                                                      const TextEncoder& encoder, const TextOptions& given) {
  check(sources, encoder, given);
  TextOptions options = given;
  options.packing = Packing::kNone;
  options.labels = true;
  options.positions = false;
  std::vector<TextDocuments::Source> opened;
  for (const TextSource& source : sources) {
    if (source.weight)
      fail(WEFT_INVALID_ARGUMENT,
           "{} has the weight {}, but each document is measured by itself, once; give {} without a weight",
           source.path, *source.weight, source.path);
    TextFiles files = files_of(source, options);
    auto samples = open_source(tokens_of(source, files, encoder, options), encoder, options,
                               [&](TokenCache cache, SampleOptions windows) {
                                 windows.overlap = true;
                                 return std::make_shared<TextSamples>(std::move(cache), source.path, windows);
                               });
    opened.push_back({std::move(files), std::move(samples)});
  }
  return std::make_shared<TextDocuments>(std::move(opened));
}

std::shared_ptr<Dataset> open_bytes(const std::vector<TextSource>& sources, const TextOptions& options) {
  return open_encoded_text(sources, byte_encoder(), options);
}

}  // namespace weft::data
