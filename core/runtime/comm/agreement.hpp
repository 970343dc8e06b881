// How ranks agree or fail together. A difference between ranks would become a hang or a wrong gradient later,
// and a rank that fails alone would leave the others waiting for it.
#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace weft {

// Runs `action` on every rank of the group. If it throws anything on any rank, all ranks throw after all have
// called this function. They throw an Error with the status and text of the lowest rank that failed:
// "rank N failed: TEXT", where N is its rank in the job. A rank whose own action failed with the same status
// and text rethrows its own exception, and so does one that cannot tell the others of it. Calls for nested
// groups name the rank once. Collective.
void on_every_rank(const Communicator& ranks, const std::function<void()>& action);

// Like on_every_rank. Returns the texts that `action` returned, in the order of ranks. Collective.
std::vector<std::string> gather_from_every_rank(const Communicator& ranks,
                                                const std::function<std::string()>& action);

// Like on_every_rank, but runs `action` only on the first rank of the group. Collective.
void on_master(const Communicator& ranks, const std::function<void()>& action);

// Throws FAILED_PRECONDITION on every rank if `facts`, a JSON object, differ between ranks. The text lists
// each innermost value that differs with the ranks that have it. `found_in` may say where this rank has a
// fact from, such as a path; it may differ between ranks and is printed after the value. Collective.
void require_agreement(const Communicator& ranks, const nlohmann::json& facts,
                       const nlohmann::json& found_in = nlohmann::json::object());

// Returns "rank 2" or "ranks 0, 2 and 3"; of many ranks, the first ones and the number of the others.
std::string ranks_text(const std::vector<int>& ranks);

// Keeps the first exception until this rank has taken part in every collective of a sequence.
class Deferred {
 public:
  void run(const std::function<void()>& action);  // does nothing after a failure
  void rethrow() const;

 private:
  std::exception_ptr failure_;
};

}  // namespace weft
