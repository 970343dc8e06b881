// The one way in which ranks agree or fail together. What differs between ranks would be a hang or a wrong
// gradient later, and a rank that fails alone would leave the others waiting for it.
#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace weft {

// Runs `action` on every rank of the group. If it throws on any of them, whatever it throws, all ranks throw
// once all have come here: a rank whose action failed as the first failing rank's did rethrows its own
// exception, the others throw an Error with the status of that first rank and "rank N failed: TEXT", N being
// its rank in the job. Groups may be nested; the rank is named once. Collective.
void on_every_rank(const Communicator& ranks, const std::function<void()>& action);

// Like on_every_rank; returns what `action` returned on each rank, in the order of ranks. Collective.
std::vector<std::string> gather_from_every_rank(const Communicator& ranks,
                                                const std::function<std::string()>& action);

// Like on_every_rank, for an action of the first rank alone. Collective.
void on_master(const Communicator& ranks, const std::function<void()>& action);

// Throws FAILED_PRECONDITION on every rank if `facts` (by a name for messages) differ between ranks; the text
// names the first rank that differs from rank 0, and each fact with both values. Collective.
void require_agreement(const Communicator& ranks, const nlohmann::json& facts);

// Keeps the exception of a step until every rank has come to the end of a sequence of collectives.
class Deferred {
 public:
  void run(const std::function<void()>& action);  // does nothing after a failure
  void rethrow() const;

 private:
  std::exception_ptr failure_;
};

}  // namespace weft
