#include "device/device.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "base/bytes.hpp"
#include "base/environment.hpp"
#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "log.hpp"
#include "plugins.hpp"
#include "weft/error.hpp"

namespace weft::device {

namespace {

constexpr const char* kHostBackend = "gloo";
constexpr Kind kHostKind = {sizeof(Kind), "cpu", kHost, kHostBackend};

constexpr auto kAllocated = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

weft_loaded library_of(std::string_view name) {
  const std::string plain = plugin_name(name);
  if (plain != name && (plain.empty() || plain == kHostKind.name))
    fail(WEFT_INVALID_ARGUMENT, "device {}: {}", printable(name),
         plain.empty() ? "there is no default device; name one before the @"
                       : "the CPU needs no library, so it has no version; leave the @ out");
  try {
    return load_plugin("device", name);
  } catch (const Error& error) {
    if (error.status() != WEFT_NOT_FOUND) throw;
    fail(WEFT_NOT_FOUND,
         "device {}: {}\n(sdk/docs/devices.md says what the libraries of devices need, and how they are "
         "built)",
         printable(name), error.what());
  }
}

// The library was compiled with a header of another Weft if a size differs.
void check_size(std::string_view name, std::string_view library, const char* table, uint64_t found,
                uint64_t wanted) {
  if (found == wanted) return;
  fail(WEFT_FAILED_PRECONDITION,
       "device {}: {} has a {} of {} bytes, but this Weft has one of {}; build the library with the headers "
       "of "
       "this Weft",
       printable(name), library, table, found, wanted);
}

const Kind& usable_kind_of(std::string_view name) {
  const Kind& kind = kind_of(name);
  if (const std::string missing = kind.missing != nullptr ? kind.missing() : ""; !missing.empty())
    fail(WEFT_FAILED_PRECONDITION, "device {}: {}", printable(name), missing);
  return kind;
}

int count_of(const Kind& kind) {
  return kind.count != nullptr ? kind.count() : 1;
}

}  // namespace

namespace internal {
constinit Device chosen{kHostKind};
}

namespace {
constinit std::atomic<bool> is_chosen_by_name{false};

// The name by which the current device was chosen, with its version.
std::string& chosen_name() {
  static std::string name;
  return name;
}

// Returns whether the current device is the one of this name. A second library of the same device would not
// load beside the first, so a version is that of the current one only if it was chosen by it.
bool is_current(std::string_view name) {
  const std::string plain = plugin_name(name);
  return plain == current().kind().name && (plain == name || chosen_name() == name);
}
}  // namespace

void check_kind(const Kind* kind, std::string_view name, std::string_view library) {
  const auto refuse = [&](const char* why) {
    fail(WEFT_FAILED_PRECONDITION, "device {}: {} says that it provides the device, but its table {}",
         printable(name), library, why);
  };
  if (kind == nullptr) refuse("does not have it");
  check_size(name, library, "device::Kind", kind->struct_size, sizeof(Kind));
  if (kind->type == kHost) refuse("names the CPU");
  if (kind->make_backend != nullptr && kind->backend == nullptr)
    refuse("does not name its communication backend");
}

const Kind& kind_of(std::string_view name) {
  const weft_loaded library = library_of(name);
  const auto& factory = plugin_factory<KindFactory>(library, kKindFactory);
  check_size(name, view(library.path), "KindFactory", factory.struct_size, sizeof(KindFactory));
  const Kind* const kind = factory.find(plugin_name(name));
  check_kind(kind, name, view(library.path));
  return *kind;
}

Device host() {
  return Device(kHostKind);
}

std::string_view Device::backend() const {
  return make_backend() != nullptr ? kind_->backend : kHostBackend;
}

void use(std::string_view name, int local_rank, int local_size) {
  if (is_current(name)) {
    is_chosen_by_name = true;
    return;
  }
  if (const Device& now = current(); is_chosen_by_name || !now.is_host())
    fail(WEFT_FAILED_PRECONDITION,
         "device {}: this process computes on {} already, and a process has one device; give all Boosters of "
         "the process the same device, or start another process",
         printable(name),
         chosen_name().find('@') == std::string::npos ? now.name()
                                                      : fmt::format("{} of {}", now.name(), chosen_name()));
  const Kind& kind = usable_kind_of(name);
  const int count = count_of(kind);
  if (count < 1) fail(WEFT_FAILED_PRECONDITION, "device {}: this process may use none", printable(name));
  const Device device(kind, static_cast<c10::DeviceIndex>(local_rank % count), local_size > count);
  limit_memory(device);
  if (device.is_shared() && local_rank == 0)
    log(WEFT_LOG_WARNING,
        fmt::format("device {}: {} ranks of this machine share {}, so they communicate through host memory",
                    name, local_size, count == 1 ? "one" : fmt::format("{} of them", count)));
  use(device);
  is_chosen_by_name = true;
  chosen_name() = name;
}

std::string missing(std::string_view name) {
  if (name == kHostKind.name) return "";
  try {
    usable_kind_of(name);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

int count(std::string_view name) {
  return count_of(usable_kind_of(name));
}

std::vector<std::pair<std::string, std::string>> facts(std::string_view name) {
  try {
    const Kind& kind = kind_of(name);
    return kind.facts != nullptr ? kind.facts() : std::vector<std::pair<std::string, std::string>>();
  } catch (const Error&) {
    return {};  // missing() says why
  }
}

void limit_memory(const Device& device) {
  const std::optional<int64_t> limit = memory_limit();
  if (!limit) return;
  if (device.kind().limit_memory == nullptr)
    fail(WEFT_UNIMPLEMENTED,
         "WEFT_ACCELERATOR_MEMORY is {}, but the device {} has no limit of memory that could be set; unset "
         "the "
         "variable",
         *environment("WEFT_ACCELERATOR_MEMORY"), device.kind().name);
  device.kind().limit_memory(device.place().index(), *limit);
}

void use(const Device& device) {
  internal::chosen = device;
  is_chosen_by_name = false;
  chosen_name().clear();
  if (!device.is_host()) c10::impl::getDeviceGuardImpl(device.kind().type)->setDevice(device.place());
}

void synchronise() {
  const Device& device = current();
  if (device.is_host()) return;
  c10::impl::getDeviceGuardImpl(device.place().type())->synchronizeDevice(device.place().index());
  check_work();
}

void check_work() {
  const Kind& kind = current().kind();
  if (kind.failure == nullptr) return;
  if (const std::string failure = kind.failure(); !failure.empty()) throw Error(WEFT_UNAVAILABLE, failure);
}

std::optional<int64_t> memory_limit() {
  const auto limit = environment("WEFT_ACCELERATOR_MEMORY");
  if (!limit) return std::nullopt;
  return parse_bytes(*limit, "environment variable WEFT_ACCELERATOR_MEMORY");
}

MemoryUse memory_use() {
  const Device& device = current();
  if (device.is_host()) return {allocated_bytes(), peak_allocated_bytes(), std::nullopt};
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.place().type());
  const auto stats = allocator->getDeviceStats(device.place().index());
  const auto& allocated = stats.allocated_bytes.at(kAllocated);
  const size_t capacity = allocator->getMemoryInfo(device.place().index()).second;
  return {allocated.current, allocated.peak, static_cast<int64_t>(capacity)};
}

void reset_peak() {
  const Device& device = current();
  if (device.is_host()) return reset_peak_allocated_bytes();
  c10::getDeviceAllocator(device.place().type())->resetPeakStats(device.place().index());
}

}  // namespace weft::device
