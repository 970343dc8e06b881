// Reads ELF files without loading them. Every size and offset in the file is checked before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::host {

struct ElfFile {
  bool is_64_bit = false;
  bool is_little_endian = false;
  bool is_shared_object = false;
  uint16_t machine = 0;                // EM_*
  std::optional<std::string> note;     // the text of Weft's note
  std::vector<std::string> needed;     // DT_NEEDED
  std::vector<std::string> run_paths;  // DT_RPATH and DT_RUNPATH
  std::vector<std::string> imports;    // names of undefined symbols
};

// Reads an ELF file. Reads only the header if the word size or the byte order is another one than that of
// this machine. Throws LoadError: FIND if the file cannot be opened; NOTE if it is not ELF, is truncated, or
// its tables point outside the file.
ElfFile read_elf(const std::filesystem::path& path);
ElfFile parse_elf(std::string_view bytes, std::string_view source);

// Parses the lines "key=value" of a note. Throws LoadError (NOTE) for any other line and for a repeated key.
std::map<std::string, std::string> parse_note(std::string_view text, std::string_view source);

std::string machine_name(uint16_t machine);  // "x86-64"
uint16_t this_machine();                     // EM_* of this process

}  // namespace weft::host
