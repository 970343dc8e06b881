#include "comm/agreement.hpp"

#include <set>

#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "comm/job.hpp"
#include "failure.hpp"

namespace weft {

namespace {

constexpr size_t kLongest = 300;

std::string shortened(const nlohmann::json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// Appends the innermost values that differ, by the path of their keys.
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

// What an action did on one rank.
struct Outcome {
  weft_status status = WEFT_OK;
  std::string text;  // that the action returned, or of its failure, with the culprit's rank in the job
  std::exception_ptr failure;

  explicit Outcome(const std::function<std::string()>& action) {
    try {
      text = action();
    } catch (const std::exception& e) {
      const Failure described = describe(e);
      failed(described.status, described.text);
    } catch (...) {
      failed(WEFT_UNKNOWN, "an exception that is no std::exception");
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
  std::vector<std::string> all = ranks.gather_text(fmt::format("{} {}", own.status, own.text));
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

void require_agreement(const Communicator& ranks, const nlohmann::json& facts) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> all = ranks.gather_text(facts.dump());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::vector<std::array<std::string, 3>> differences;
    add_differences(nlohmann::json::parse(all[0]), nlohmann::json::parse(all[rank]), "", differences);
    std::string text;
    for (const auto& [name, first, other] : differences)
      text += fmt::format("\n{}: rank 0 has {}, rank {} has {}", name, first, rank, other);
    fail(WEFT_FAILED_PRECONDITION,
         "ranks 0 and {} were not started alike; give every rank the same options, files and plugins{}", rank,
         text);
  }
}

}  // namespace weft
