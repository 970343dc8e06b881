#include "comm/agreement.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/error_sink.hpp"
#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "comm/job.hpp"
#include "failure.hpp"

namespace weft {

namespace {

constexpr size_t kLongest = 300;

std::string shortened(const nlohmann::json& value) {
  if (value.is_null()) return "none";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() <= kLongest) return text;
  return fmt::format("{}... ({} characters)", text.substr(0, kLongest), text.size());
}

// Appends the innermost values that differ, each with the path of its keys.
void add_differences(const nlohmann::json& first, const nlohmann::json& other, const std::string& path,
                     std::vector<std::array<std::string, 3>>& out) {
  if (first == other) return;
  if (first.is_array() && other.is_array() && first.size() == other.size()) {
    for (size_t i = 0; i < first.size(); ++i)
      add_differences(first[i], other[i], path + " " + std::to_string(i), out);
    return;
  }
  if (!first.is_object() || !other.is_object()) {
    out.push_back({path, shortened(first), shortened(other)});
    return;
  }
  std::set<std::string> keys;
  for (const auto* side : {&first, &other})
    for (const auto& item : side->items()) keys.insert(item.key());
  for (const std::string& key : keys)
    add_differences(first.value(key, nlohmann::json()), other.value(key, nlohmann::json()),
                    path.empty() ? key : path + " " + key, out);
}

// Runs an action and keeps what it returned or threw.
struct Outcome {
  weft_status status = WEFT_OK;
  std::string text;  // the result, or the text of the failure with the rank in the job that failed
  std::exception_ptr failure;

  explicit Outcome(const std::function<std::string()>& action) {
    try {
      text = action();
    } catch (const std::exception& e) {
      const Failure described = describe(e);
      failed(described.status, described.text);
    } catch (...) {
      failed(WEFT_UNKNOWN, kNoStdException);
    }
  }

 private:
  void failed(weft_status found, std::string_view what) {
    status = found;
    text = failure_of_rank(comm::own_rank(), what);
    failure = std::current_exception();
  }
};

}  // namespace

std::vector<std::string> gather_from_every_rank(const Communicator& ranks,
                                                const std::function<std::string()>& action) {
  if (ranks.size() == 1) return {action()};
  const Outcome own(action);
  std::vector<std::string> all;
  try {
    all = ranks.gather_text(fmt::format("{} {}", own.status, own.text));
  } catch (const Error&) {
    // This rank knows why it failed, but not why it cannot tell the others.
    if (own.failure != nullptr) std::rethrow_exception(own.failure);
    throw;
  }
  for (std::string& answer : all) {
    const weft_status status = std::stoi(answer);
    answer.erase(0, answer.find(' ') + 1);
    if (status == WEFT_OK) continue;
    if (own.status == status && without_culprit(own.text) == without_culprit(answer))
      std::rethrow_exception(own.failure);
    throw Error(status, answer);
  }
  return all;
}

void on_every_rank(const Communicator& ranks, const std::function<void()>& action) {
  gather_from_every_rank(ranks, [&] {
    action();
    return std::string();
  });
}

void on_master(const Communicator& ranks, const std::function<void()>& action) {
  on_every_rank(ranks, [&] {
    if (ranks.rank() == 0) action();
  });
}

void Deferred::run(const std::function<void()>& action) {
  if (failure_ != nullptr) return;
  try {
    action();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Deferred::rethrow() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const bool all = ranks.size() <= kMost;
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(all ? ranks.size() - 1 : kMost);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), last, ", "),
                     all ? std::to_string(*last) : fmt::format("{} more", ranks.size() - kMost));
}

namespace {

// A value that is not the same on all ranks.
class Difference {
 public:
  Difference(std::string name, const std::string& of_rank_0, size_t num_ranks)
      : name_(std::move(name)), values_(num_ranks, of_rank_0) {}
  const std::string& name() const { return name_; }
  void set(size_t rank, std::string value) { values_[rank] = std::move(value); }

  // Returns "NAME: ranks 0 and 2 have VALUE, rank 1 has OTHER (in PATH)". `found_in` has a path for each
  // rank.
  std::string text(const std::vector<std::string>& found_in) const {
    std::vector<std::string> parts;
    std::set<std::string> said;
    for (size_t first = 0; first < values_.size(); ++first) {
      if (!said.insert(values_[first]).second) continue;
      std::vector<int> ranks;
      for (size_t rank = first; rank < values_.size(); ++rank)
        if (values_[rank] == values_[first]) ranks.push_back(static_cast<int>(rank));
      const std::string place = found_in[first].empty() ? "" : fmt::format(" (in {})", found_in[first]);
      parts.push_back(fmt::format("{} {} {}{}", ranks_text(ranks), ranks.size() == 1 ? "has" : "have",
                                  values_[first], place));
    }
    return fmt::format("\n{}: {}", name_, fmt::join(parts, ", "));
  }

 private:
  std::string name_;
  std::vector<std::string> values_;  // by rank
};

// Returns the innermost differences of the fact `key`. `all` has the facts of each rank.
std::vector<Difference> differences_of(const std::string& key, const std::vector<nlohmann::json>& all) {
  std::vector<Difference> found;
  const auto value_of = [&](size_t rank) { return all[rank].value(key, nlohmann::json()); };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    std::vector<std::array<std::string, 3>> differences;
    add_differences(value_of(0), value_of(rank), key, differences);
    for (const auto& [name, first, other] : differences) {
      auto known = std::find_if(found.begin(), found.end(), [&, n = std::cref(name)](const Difference& d) {
        return d.name() == n.get();
      });
      if (known == found.end()) known = found.emplace(found.end(), name, first, all.size());
      known->set(rank, other);
    }
  }
  return found;
}

std::vector<nlohmann::json> parse_all(const std::vector<std::string>& texts) {
  std::vector<nlohmann::json> all;
  for (const std::string& text : texts) all.push_back(nlohmann::json::parse(text));
  return all;
}

}  // namespace

void require_agreement(const Communicator& ranks, const nlohmann::json& facts,
                       const nlohmann::json& found_in) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> texts = ranks.gather_text(facts.dump());
  std::vector<int> differing = {0};
  for (size_t rank = 1; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) differing.push_back(static_cast<int>(rank));
  if (differing.size() == 1) return;
  const std::vector<nlohmann::json> all = parse_all(texts),
                                    places = parse_all(ranks.gather_text(found_in.dump()));
  std::set<std::string> keys;
  for (const nlohmann::json& own : all)
    for (const auto& item : own.items()) keys.insert(item.key());
  std::string text;
  for (const std::string& key : keys) {
    std::vector<std::string> place_of_rank;
    for (const nlohmann::json& place : places) place_of_rank.push_back(place.value(key, std::string()));
    for (const Difference& difference : differences_of(key, all)) text += difference.text(place_of_rank);
  }
  fail(WEFT_FAILED_PRECONDITION,
       "{} were not started alike; give every rank the same options, files and plugins{}",
       ranks_text(differing), text);
}

}  // namespace weft
