// Full disks, for tests of saves.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace weft::test {

// Runs `body`, which may use GoogleTest's assertions, in a child process that alone sees an empty disk of
// this size at `folder`. Returns whether it passed; nothing where no disk can be mounted.
std::optional<bool> passes_on_small_disk(const std::string& folder, size_t size_bytes,
                                         const std::function<void()>& body);

}  // namespace weft::test
