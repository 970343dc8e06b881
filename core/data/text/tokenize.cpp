#include "text/tokenize.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/sha256.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "host/launch/activity.hpp"
#include "text/cache_lock.hpp"
#include "text/cache_places.hpp"

namespace weft::data {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Names of files and broken lines need not be UTF-8.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// What tells that a file has not changed without reading it. A program can set the time of the last change of
// the content back, but not that of the last change of the inode.
json stamp_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(WEFT_NOT_FOUND, "{}: the file is gone", path);
  return {{"device", status.st_dev},
          {"inode", status.st_ino},
          {"size", status.st_size},
          {"mtime", nanoseconds(status.st_mtim)},
          {"ctime", nanoseconds(status.st_ctim)}};
}

// Returns the digest of a file. Calls `touch` from time to time.
std::string digest_of(const MappedFile& file, const std::function<void()>& touch) {
  constexpr size_t kBytes = 16 << 20;
  Sha256 sum;
  for (std::string_view rest = file.bytes(); !rest.empty();
       rest.remove_prefix(std::min(kBytes, rest.size()))) {
    sum.update(rest.data(), std::min(kBytes, rest.size()));
    touch();
  }
  return sum.finish();
}

// Returns what decides the ids, beside the content of the files.
json settings_of(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options) {
  return {{"pattern", files.pattern},
          {"tokenizer", encoder.digest},
          {"before", encoder.before},
          {"after", encoder.after},
          {"chat_template", sha256_hex(encoder.chat_template)},
          {"tool_template", sha256_hex(encoder.tool_template)},
          {"special_tokens", encoder.special_tokens},
          {"skip_broken_lines", options.skip_broken_lines},
          {"closing", encoder.closing},
          {"separates", options.separates}};
}

// Returns whether the ids are those of the files as they are now. A file with another stamp is compared by
// its content.
bool is_current(const TokenCache& cache, const json& settings, const TextFiles& files,
                const std::function<void()>& touch) {
  const json made = json::parse(cache.description(), nullptr, false);
  if (!made.is_object() || made.value("settings", json()) != settings) return false;
  const json sources = made.value("sources", json::array());
  if (sources.size() != files.files.size()) return false;
  for (size_t i = 0; i < sources.size(); ++i) {
    const json& source = sources[i];
    if (source.value("name", "") != files.files[i]) return false;
    const json stamp = stamp_of(files.path(i)), known = source.at("stamp");
    if (stamp == known) continue;
    if (stamp["size"] != known.at("size")) return false;
    if (digest_of(MappedFile(files.path(i)), touch) != source.at("sha256")) return false;
  }
  return true;
}

// Encodes the pieces of all files in parallel, and writes them in their order.
class Tokenization {
 public:
  // Calls `touch` from several threads, whenever there is progress.
  Tokenization(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options,
               std::function<void()> touch)
      : files_(files),
        options_(options),
        touch_(std::move(touch)),
        documents_(files, encoder, options.skip_broken_lines, options.separates),
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
    auto digest = std::async(std::launch::async, [this, file] { return digest_of(*file, touch_); });
    for (const TextPiece& piece : documents_.pieces_of(index, file->bytes())) {
      if (running_.size() >= 2 * threads_) take(writer);
      const auto encode = [this, piece, file] {
        EncodedPiece encoded = documents_.encode(piece, file->bytes());
        touch_();
        return encoded;
      };
      running_.push_back(
          {std::async(std::launch::async, encode), index, static_cast<int64_t>(piece.text.size())});
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
  const std::function<void()> touch_;
  const DocumentEncoder documents_;
  const size_t threads_;
  json sources_ = json::array();
  int64_t total_ = 0, done_ = 0, empty_ = 0, broken_ = 0;
  std::string first_broken_;
  std::deque<Running> running_;  // last: its tasks use the members above
};

// Makes the ids under the lock of their file, unless the process made them for which this one has waited.
TokenCache make(const fs::path& path, CacheLock& lock, const json& settings, const TextFiles& files,
                const TextEncoder& encoder, const TokenizeOptions& options) {
  if (lock.failure()) throw *lock.failure();
  const auto touch = [&] { lock.touch(); };
  std::optional<TokenCache> cache = TokenCache::open(path);
  if (cache && is_current(*cache, settings, files, touch)) return std::move(*cache);
  try {
    const Activity activity(fmt::format("the tokenization of {}", files.name));
    remove_unfinished(path);
    {
      TokenCacheWriter writer(path, encoder.vocabulary_size);
      json description = Tokenization(files, encoder, options, touch).write_to(writer);
      description["settings"] = settings;
      writer.finish(dumped(description));
    }
    cache = TokenCache::open(path);
    if (!cache) fail(WEFT_DATA_LOSS, "{}: what was written is not what is read back", path.string());
    return std::move(*cache);
  } catch (const Error& error) {
    lock.tell(error);
    throw;
  }
}

// Runs an action that needs a place for the ids. Adds the reason to `refused`, and returns false, if the
// place cannot be used.
bool can_use(const std::function<void()>& action, std::vector<std::string>& refused) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (error.status() != WEFT_PERMISSION_DENIED) throw;
    refused.emplace_back(error.what());
    return false;
  }
}

}  // namespace

TokenCache tokenize(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options) {
  const json settings = settings_of(files, encoder, options);
  std::vector<fs::path> places;
  std::vector<std::string> refused;
  for (const fs::path& path : cache_places(files, dumped(settings))) {
    std::optional<TokenCache> cache;
    if (!can_use([&] { cache = TokenCache::open(path); }, refused)) continue;
    if (cache && is_current(*cache, settings, files, [] {})) return std::move(*cache);
    places.push_back(path);
  }
  for (const fs::path& path : places) {
    std::optional<CacheLock> lock;
    const auto take_lock = [&] {
      make_believed_folder(path);
      lock.emplace(path, CacheWait{files.name, options.timeout, options.note});
    };
    if (!can_use(take_lock, refused)) continue;
    if (!refused.empty() && options.note)
      options.note(fmt::format("{}: its token ids are kept in {}: {}", files.name,
                               path.parent_path().string(), fmt::join(refused, "; ")));
    return make(path, *lock, settings, files, encoder, options);
  }
  fail(WEFT_PERMISSION_DENIED,
       "{}: no place for its token ids: {}; set XDG_CACHE_HOME to a folder of your own", files.name,
       fmt::join(refused, "; "));
}

}  // namespace weft::data
