#include "data/tokenize.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/environment.hpp"
#include "base/sha256.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "data/cache_lock.hpp"

namespace weft::data {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Names of files and broken lines need not be UTF-8.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// What tells that a file has not changed without reading it.
json stamp_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(WEFT_NOT_FOUND, "{}: the file is gone", path);
  return {{"size", status.st_size},
          {"time", int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec}};
}

// Returns what decides the ids, beside the content of the files.
json settings_of(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options) {
  return {{"pattern", files.pattern},
          {"tokenizer", encoder.digest},
          {"before", encoder.before},
          {"after", encoder.after},
          {"chat_template", sha256_hex(encoder.chat_template)},
          {"special_tokens", encoder.special_tokens},
          {"skip_broken_lines", options.skip_broken_lines}};
}

// Returns whether the ids are those of the files as they are now. A file with another time is compared by its
// content.
bool is_current(const TokenCache& cache, const json& settings, const TextFiles& files) {
  const json made = json::parse(cache.description(), nullptr, false);
  if (!made.is_object() || made.value("settings", json()) != settings) return false;
  const json sources = made.value("sources", json::array());
  if (sources.size() != files.files.size()) return false;
  for (size_t i = 0; i < sources.size(); ++i) {
    const json& source = sources[i];
    if (source.value("name", "") != files.files[i]) return false;
    const json stamp = stamp_of(files.path(i));
    if (stamp["size"] != source.at("stamp").at("size")) return false;
    if (stamp != source.at("stamp") && sha256_file(files.path(i)) != source.at("sha256")) return false;
  }
  return true;
}

std::optional<TokenCache> open_current(const fs::path& path, const json& settings, const TextFiles& files) {
  std::optional<TokenCache> cache = TokenCache::open(path);
  if (cache && !is_current(*cache, settings, files)) cache.reset();
  return cache;
}

// Returns where the ids can be kept, the best place first.
std::vector<fs::path> places(const TextFiles& files, const json& settings) {
  const auto name = [&](const std::string& folder) {
    const std::string key = sha256_hex(dumped(settings) + folder).substr(0, 16);
    return fmt::format("{}-{}.ids", fs::path(files.folder).filename().string(), key);
  };
  std::vector<fs::path> found = {fs::path(files.folder) / ".weft_cache" / name("")};
  std::optional<std::string> home = environment("XDG_CACHE_HOME");
  if (!home && environment("HOME")) home = *environment("HOME") + "/.cache";
  if (home) found.push_back(fs::path(*home) / "weft" / "ids" / name(files.folder));
  return found;
}

bool is_writable(const fs::path& folder) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// Encodes the pieces of all files in parallel, and writes them in their order.
class Tokenization {
 public:
  Tokenization(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options)
      : files_(files),
        options_(options),
        documents_(files, encoder, options.skip_broken_lines),
        threads_(options.threads > 0 ? static_cast<size_t>(options.threads)
                                     : std::max(1u, std::thread::hardware_concurrency())) {
    for (size_t i = 0; i < files.files.size(); ++i) {
      sources_.push_back({{"name", files.files[i]}, {"stamp", stamp_of(files.path(i))}, {"documents", 0}});
      total_ += sources_.back()["stamp"]["size"].get<int64_t>();
    }
  }

  // Returns what the ids were made of and what was left out.
  json write_to(TokenCacheWriter& writer) {
    for (size_t i = 0; i < files_.files.size(); ++i) add_file(i, writer);
    while (!running_.empty()) take(writer);
    for (size_t i = 0; i < files_.files.size(); ++i)
      if (stamp_of(files_.path(i)) != sources_[i]["stamp"])
        fail(WEFT_DATA_LOSS, "{}: the file has changed while it was read; start again when it is complete",
             files_.path(i));
    return {{"sources", sources_},
            {"empty_documents", empty_},
            {"broken_lines", broken_},
            {"first_broken", first_broken_}};
  }

 private:
  struct Running {
    std::future<EncodedPiece> encoded;
    size_t file;
    int64_t bytes;
  };

  void add_file(size_t index, TokenCacheWriter& writer) {
    const auto file = std::make_shared<const MappedFile>(files_.path(index));
    const BlockSignals in_new_threads;
    auto digest = std::async(std::launch::async, [file] {
      Sha256 sum;
      sum.update(file->bytes().data(), file->bytes().size());
      return sum.finish();
    });
    for (const TextPiece& piece : documents_.pieces_of(index, file->bytes())) {
      if (running_.size() >= 2 * threads_) take(writer);
      running_.push_back({std::async(std::launch::async,
                                     [this, piece, file] { return documents_.encode(piece, file->bytes()); }),
                          index, static_cast<int64_t>(piece.text.size())});
    }
    sources_[index]["sha256"] = digest.get();
  }

  void take(TokenCacheWriter& writer) {
    Running next = std::move(running_.front());
    running_.pop_front();
    const EncodedPiece encoded = next.encoded.get();
    writer.add(encoded);
    json& documents = sources_[next.file]["documents"];
    documents = documents.get<size_t>() + encoded.begins.size();
    empty_ += encoded.empty_documents;
    if (broken_ == 0) first_broken_ = encoded.first_broken;
    broken_ += encoded.broken_lines;
    done_ += next.bytes;
    if (options_.progress) options_.progress(files_.name, done_, total_);
  }

  const TextFiles& files_;
  const TokenizeOptions& options_;
  const DocumentEncoder documents_;
  const size_t threads_;
  json sources_ = json::array();
  int64_t total_ = 0, done_ = 0, empty_ = 0, broken_ = 0;
  std::string first_broken_;
  std::deque<Running> running_;  // last: its tasks use the members above
};

TokenCache make(const fs::path& path, const json& settings, const TextFiles& files,
                const TextEncoder& encoder, const TokenizeOptions& options) {
  remove_unfinished(path);
  {
    TokenCacheWriter writer(path, encoder.vocabulary_size);
    json description = Tokenization(files, encoder, options).write_to(writer);
    description["settings"] = settings;
    writer.finish(dumped(description));
  }
  std::optional<TokenCache> cache = TokenCache::open(path);
  if (!cache) fail(WEFT_DATA_LOSS, "{}: what was written is not what is read back", path.string());
  return std::move(*cache);
}

}  // namespace

TokenCache tokenize(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options) {
  const json settings = settings_of(files, encoder, options);
  const std::vector<fs::path> known = places(files, settings);
  for (const fs::path& path : known)
    if (auto cache = open_current(path, settings, files)) return std::move(*cache);
  const auto path = std::find_if(known.begin(), known.end(),
                                 [](const fs::path& place) { return is_writable(place.parent_path()); });
  if (path == known.end()) {
    std::vector<std::string> tried;
    for (const fs::path& place : known) tried.push_back(place.parent_path().string());
    fail(WEFT_PERMISSION_DENIED,
         "{}: no place for its token ids: neither {} can be written to; set XDG_CACHE_HOME to a folder that "
         "can",
         files.name, fmt::join(tried, " nor "));
  }
  CacheLock lock(*path);
  if (lock.failure()) throw *lock.failure();
  // Another process may have made it while this one waited.
  if (auto cache = open_current(*path, settings, files)) return std::move(*cache);
  try {
    return make(*path, settings, files, encoder, options);
  } catch (const Error& error) {
    lock.tell(error);
    throw;
  }
}

}  // namespace weft::data
