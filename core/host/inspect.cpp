#include "host/inspect.hpp"

#include <algorithm>
#include <cctype>
#include <compare>

#include "base/text.hpp"
#include "host/elf_file.hpp"
#include "host/load_error.hpp"
#include "host/semantic_version.hpp"
#include "host/trust.hpp"

namespace weft::host {
namespace {

void check_note(const Candidate& candidate, const ElfFile& elf) {
  const Manifest& manifest = candidate.manifest();
  const LibraryEntry& library = *candidate.library;
  if (!elf.note) {
    throw LoadError(
        Stage::kNote, WEFT_FAILED_PRECONDITION,
        fmt::format("it has no note of Weft's; build it with weft_add_plugin, or use WEFT_PLUGIN_NOTE"));
  }
  const auto facts = parse_note(*elf.note, library.file);
  const std::pair<const char*, std::string> wanted[] = {
      {"id", manifest.id},
      {"version", manifest.version},
      {"tier", std::string(tier_name(library.tier))},
      {"abi", fmt::format("{}.{}-{}", manifest.abi.major, manifest.abi.minor_min, manifest.abi.minor)},
      {"torch", library.torch_tag},
      {"torch_min", library.torch_min},
      {"build", library.build_id}};
  for (const auto& [key, value] : wanted) {
    const auto found = facts.find(key);
    const std::string text = found == facts.end() ? "" : found->second;
    if (text != value) {
      throw LoadError(
          Stage::kNote, WEFT_FAILED_PRECONDITION,
          fmt::format("the library's note has {} \"{}\", its manifest \"{}\"; they are not from one build, "
                      "install the plugin again",
                      key, printable(text), printable(value)));
    }
  }
}

void check_machine(const ElfFile& elf) {
  const uint16_t wanted = this_machine();
  if (elf.is_64_bit && elf.is_little_endian && elf.is_shared_object && elf.machine == wanted) return;
  std::string found =
      fmt::format("{}, {} bits, {}", elf.is_shared_object ? "a library" : "not a library",
                  elf.is_64_bit ? 64 : 32, elf.is_little_endian ? "little-endian" : "big-endian");
  if (elf.machine != 0) found += ", for " + machine_name(elf.machine);
  throw LoadError(
      Stage::kArch, WEFT_FAILED_PRECONDITION,
      fmt::format(
          "it is {}; this process needs a library for {}; install the plugin's build for this machine", found,
          machine_name(wanted)));
}

// Returns true for a mangled name with one of libtorch's namespaces, c10, at or torch: the length of the name
// and then the name, where no digit precedes the length.
bool is_torch_cxx(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return false;
  for (const std::string_view part : {"3c10", "2at", "5torch"}) {
    for (size_t at = symbol.find(part); at != std::string_view::npos; at = symbol.find(part, at + 1))
      if (std::isdigit(static_cast<unsigned char>(symbol[at - 1])) == 0) return true;
  }
  return false;
}

void check_needed(const LibraryEntry& library, const ElfFile& elf) {
  for (const std::string& needed : elf.needed) {
    const bool is_torch = needed.starts_with("libtorch") || needed.starts_with("libc10");
    const bool is_weft = needed.starts_with("libweft");
    if ((library.tier == WEFT_TIER_C && is_torch) || (library.tier != WEFT_TIER_NATIVE && is_weft)) {
      throw LoadError(Stage::kTier, WEFT_FAILED_PRECONDITION,
                      fmt::format("it is of tier {}, but needs {}; build it for the tier that it uses",
                                  tier_name(library.tier), needed));
    }
  }
  if (library.tier == WEFT_TIER_STABLE) {
    const auto found = std::find_if(elf.imports.begin(), elf.imports.end(), is_torch_cxx);
    if (found != elf.imports.end())
      throw LoadError(
          Stage::kTier, WEFT_FAILED_PRECONDITION,
          fmt::format(
              "it is of tier stable, but uses libtorch's C++ function {}, which another libtorch need "
              "not have; use torch/csrc/stable alone, or build it for tier torch",
              *found));
  }
  if (library.tier != WEFT_TIER_C && !elf.run_paths.empty()) {
    // Its path could load a second libtorch.
    throw LoadError(
        Stage::kTier, WEFT_FAILED_PRECONDITION,
        fmt::format(
            "it has a library search path of its own ({}), which tier {} may not; link it without RPATH",
            fmt::join(elf.run_paths, ", "), tier_name(library.tier)));
  }
}

// Returns 2.11.0 of "torch=2.11.0,dist=gloo"; empty if the tag has another form.
std::string_view torch_version(std::string_view tag) {
  constexpr std::string_view kKey = "torch=";
  if (!tag.starts_with(kKey)) return {};
  const std::string_view version = tag.substr(kKey.size(), tag.find(',') - kKey.size());
  return is_version(version) ? version : std::string_view();
}

}  // namespace

void check_torch(const LibraryEntry& library, std::string_view torch_tag, std::string_view who) {
  if (library.tier == WEFT_TIER_STABLE) {
    const std::string_view version = torch_version(torch_tag), needed = library.torch_min;
    const bool is_one_major = version.substr(0, version.find('.')) == needed.substr(0, needed.find('.'));
    if (version.empty() || !is_one_major || std::is_lt(compare_versions(version, needed)))
      throw LoadError(Stage::kTorchTag, WEFT_FAILED_PRECONDITION,
                      fmt::format("built for libtorch {} and later ones of the same major version, {} has "
                                  "\"{}\"; install its build for this libtorch",
                                  needed, who, torch_tag));
  } else if (library.tier != WEFT_TIER_C && library.torch_tag != torch_tag) {
    throw LoadError(Stage::kTorchTag, WEFT_FAILED_PRECONDITION,
                    fmt::format("built for libtorch \"{}\", {} has \"{}\"; rebuild it, or install its build "
                                "for this libtorch",
                                printable(library.torch_tag), who, torch_tag));
  }
}

void check_compatible(const Candidate& candidate, const HostFacts& facts) {
  const LibraryEntry& library = *candidate.library;
  agree(facts.abi, candidate.manifest().abi);
  if (library.tier == WEFT_TIER_NATIVE && library.build_id != facts.build_id) {
    throw LoadError(
        Stage::kTier, WEFT_FAILED_PRECONDITION,
        fmt::format(
            "it is of tier native and was built with Weft's build {}, this Weft is build {}; rebuild it "
            "against this Weft",
            library.build_id, facts.build_id));
  }
  check_torch(library, facts.torch_tag, "this Weft");
}

void inspect(const Candidate& candidate, const std::filesystem::path& root, const HostFacts& facts) {
  const std::filesystem::path path = candidate.path();
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    throw LoadError(
        Stage::kFind, WEFT_NOT_FOUND,
        fmt::format("its manifest names {}, which is not there; install the plugin again", path.string()));
  }
  const ElfFile elf = read_elf(path);
  check_machine(elf);
  check_note(candidate, elf);
  check_compatible(candidate, facts);
  check_needed(*candidate.library, elf);
  const std::set<uid_t> owners = trusted_owners(facts.engine.parent_path());
  check_trust(path, root, owners, candidate.library->sha256);
  if (const auto problem = find_intruder(candidate.installed->folder / "plugin.json", root, owners)) {
    throw LoadError(Stage::kTrust, WEFT_PERMISSION_DENIED, *problem);
  }
}

}  // namespace weft::host
