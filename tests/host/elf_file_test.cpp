#include "host/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <random>

#include "base/files.hpp"
#include "host/expect_error.hpp"
#include "host/load_error.hpp"
#include "host/temporary.hpp"

namespace weft::host {
namespace {

std::string library_bytes(const char* name) {
  return read_file(std::string(TEST_LIBRARIES) + "/" + name, 1 << 24);
}

// An ELF file with one note segment, built by hand.
std::string make_elf(const std::string& note, uint64_t declared_size) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = this_machine();
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment = {};
  segment.p_type = PT_NOTE;
  segment.p_align = 4;
  segment.p_offset = sizeof(header) + sizeof(segment);
  segment.p_filesz = declared_size;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
  return bytes + note;
}

std::string make_note(uint32_t owner_size, uint32_t text_size, uint32_t type, const std::string& body) {
  const uint32_t words[3] = {owner_size, text_size, type};
  return std::string(reinterpret_cast<const char*>(words), sizeof(words)) + body;
}

TEST(ElfFile, RefusesWhatIsNotElf) {
  EXPECT_ERROR(parse_elf("#!/bin/sh\n", "x.so"), WEFT_DATA_LOSS, "NOTE: x.so", "ELF library");
  EXPECT_ERROR(parse_elf("", "x.so"), WEFT_DATA_LOSS, "not an ELF library");
  EXPECT_ERROR(read_elf("/nowhere/x.so"), WEFT_NOT_FOUND, "FIND", "/nowhere/x.so");
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(read_elf(folder.write("empty.so", "")), WEFT_DATA_LOSS, "empty");
  EXPECT_ERROR(read_elf(folder.path()), WEFT_DATA_LOSS, "regular file");
}

TEST(ElfFile, RefusesSizesThatPointOutside) {
  const std::string note = make_note(5, 4, 1, std::string("WEFT\0\0\0\0a=b", 12));
  EXPECT_EQ(*parse_elf(make_elf(note, note.size()), "x").note, "a=b");
  for (const uint64_t size : {note.size() + 1, uint64_t{1} << 32, UINT64_MAX}) {
    EXPECT_ERROR(parse_elf(make_elf(note, size), "x"), WEFT_DATA_LOSS, "cut off");
  }
  for (const uint32_t size : {13u, UINT32_MAX - 3, UINT32_MAX}) {
    const std::string long_owner = make_note(size, 4, 1, std::string("WEFT\0\0\0\0a=b", 12));
    EXPECT_ERROR(parse_elf(make_elf(long_owner, long_owner.size()), "x"), WEFT_DATA_LOSS, "its note");
    const std::string long_text = make_note(5, size, 1, std::string("WEFT\0\0\0\0a=b", 12));
    EXPECT_ERROR(parse_elf(make_elf(long_text, long_text.size()), "x"), WEFT_DATA_LOSS, "its note");
  }
}

TEST(ElfFile, PassesOverNotesOfOthers) {
  const std::string body("WEFT\0\0\0\0a=b", 12);
  const std::string other_type = make_note(5, 4, 2, body);
  EXPECT_FALSE(parse_elf(make_elf(other_type, other_type.size()), "x").note);
  const std::string both = make_note(4, 4, 3, std::string("GNU\0....", 8)) + make_note(5, 4, 1, body);
  EXPECT_EQ(parse_elf(make_elf(both, both.size()), "x").note, "a=b");
}

TEST(ElfFile, SurvivesEveryTruncation) {
  const std::string bytes = library_bytes("alpha_1.0.0.so");
  for (size_t size = 0; size < bytes.size(); size += size < 2048 ? 1 : 61) {
    try {
      parse_elf(std::string_view(bytes).substr(0, size), "x");
    } catch (const LoadError& error) {
      EXPECT_EQ(error.stage(), Stage::kNote);
    }
  }
}

// Damage is refused as such, or not noticed; a sanitizer tells of what is read beyond the end.
TEST(ElfFile, SurvivesDamage) {
  const std::string bytes = library_bytes("alpha_1.0.0.so");
  std::mt19937 random(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 4; ++i)
      damaged[random() % (round % 2 ? 1024 : damaged.size())] = static_cast<char>(random());
    try {
      parse_elf(damaged, "x");
      ++read;
    } catch (const LoadError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "round " << round << ": " << error.what();
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST(ElfFile, ReadsALibrary) {
  const ElfFile elf = parse_elf(library_bytes("alpha_1.0.0.so"), "x");
  EXPECT_TRUE(elf.is_64_bit && elf.is_little_endian && elf.is_shared_object);
  EXPECT_EQ(elf.machine, this_machine());
  ASSERT_TRUE(elf.note);
  const auto facts = parse_note(*elf.note, "x");
  EXPECT_EQ(facts.at("id"), "alpha");
  EXPECT_EQ(facts.at("abi"), "0.2-2");
  EXPECT_TRUE(elf.run_paths.empty());
  const ElfFile without = parse_elf(library_bytes("no_note.so"), "x");
  EXPECT_FALSE(without.note);
}

TEST(ElfFile, ReadsWhatItselfNeeds) {
  const ElfFile elf = read_elf("/proc/self/exe");
  EXPECT_NE(std::find(elf.needed.begin(), elf.needed.end(), "libc.so.6"), elf.needed.end());
}

TEST(ElfFile, ReadsWhatItImports) {
  const auto imports = [](const char* library, const char* name) {
    const std::vector<std::string> all = parse_elf(library_bytes(library), "x").imports;
    return std::count(all.begin(), all.end(), name);
  };
  EXPECT_EQ(imports("missing_symbol.so", "weft_test_function_that_is_nowhere"), 1);
  EXPECT_EQ(imports("alpha_1.0.0.so", "weft_test_function_that_is_nowhere"), 0);
  EXPECT_EQ(imports("alpha_1.0.0.so", "weft_plugin_query_v1"), 0);  // which it defines
}

TEST(Note, RefusesLinesOfAnotherForm) {
  EXPECT_ERROR(parse_note("id=a\nversion", "x.so"), WEFT_DATA_LOSS, "x.so", "\"version\"", "key=value");
  EXPECT_ERROR(parse_note("id=a\nid=b", "x.so"), WEFT_DATA_LOSS, "\"id=b\"");
  EXPECT_EQ(parse_note("torch=torch=2.11.0,cxx11abi=1\n", "x").at("torch"), "torch=2.11.0,cxx11abi=1");
}

}  // namespace
}  // namespace weft::host
