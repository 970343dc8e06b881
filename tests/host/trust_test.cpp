#include "host/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.hpp"
#include "host/expect_error.hpp"
#include "host/load_error.hpp"
#include "host/temporary.hpp"

namespace weft::host {
namespace {

class Trust : public ::testing::Test {
 protected:
  Trust() : file_(folder_.write("root/x/1.0.0/x.so", "bytes")), root_(folder_.path() / "root") {
    chmod(file_.c_str(), 0644);
    for (const char* part : {"root", "root/x", "root/x/1.0.0"}) chmod((folder_.path() / part).c_str(), 0755);
  }
  std::string find() const { return find(file_); }
  std::string find(const std::filesystem::path& file) const {
    return find_intruder(file, root_, owners_).value_or("");
  }

  const std::set<uid_t> owners_ = trusted_owners("/nowhere");
  testing::TemporaryFolder folder_;
  const std::filesystem::path file_, root_;
};

TEST_F(Trust, RefusesAFileThatEverybodyCanWrite) {
  chmod(file_.c_str(), 0646);
  EXPECT_NE(find().find("everybody (mode 646); run: chmod o-w"), std::string::npos) << find();
}

TEST_F(Trust, RefusesAFolderOnTheWayThatEverybodyCanWrite) {
  for (const char* part : {"root", "root/x", "root/x/1.0.0"}) {
    chmod((folder_.path() / part).c_str(), 0777);
    EXPECT_NE(find().find("by everybody"), std::string::npos) << part;
    chmod((folder_.path() / part).c_str(), 0755);
  }
}

TEST_F(Trust, RefusesAGroupOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(file_.c_str(), 0, 60000), 0);
  chmod(file_.c_str(), 0664);
  EXPECT_NE(find().find("by group 60000"), std::string::npos) << find();
}

TEST_F(Trust, RefusesAStrangersFileAndFolders) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  for (const unsigned mode : {0755u, 01777u}) {  // the second as /tmp
    chmod(root_.c_str(), mode);
    for (const char* part : {"root", "root/x", "root/x/1.0.0", "root/x/1.0.0/x.so"}) {
      const auto path = folder_.path() / part;
      ASSERT_EQ(chown(path.c_str(), 60000, 0), 0);
      const std::string found = find();
      for (const std::string& expected : {path.string(), std::string("user 60000")})
        EXPECT_NE(found.find(expected), std::string::npos) << found;
      ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
    }
  }
}

TEST_F(Trust, RefusesAnOwnerWhoIsNotTrusted) {
  const std::string found = find_intruder(file_, root_, {60000}).value_or("");
  EXPECT_NE(found.find("/ belongs to"), std::string::npos) << found;
  EXPECT_NE(found.find("your own"), std::string::npos) << found;
}

TEST_F(Trust, AcceptsTheOwnerOfWeftItself) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  for (const char* part : {"root/x", "root/x/1.0.0", "root/x/1.0.0/x.so"})
    ASSERT_EQ(chown((folder_.path() / part).c_str(), 60000, 0), 0);
  EXPECT_NE(find(), "");
  const std::set<uid_t> owners = trusted_owners(root_ / "x/1.0.0");
  EXPECT_EQ(owners, (std::set<uid_t>{0, 60000}));
  EXPECT_EQ(find_intruder(file_, root_, owners), std::nullopt);
}

TEST_F(Trust, RefusesALinkThatEverybodyCanReplace) {
  const auto links = root_ / "links";
  std::filesystem::create_directory(links);
  std::filesystem::create_symlink("../x/1.0.0/x.so", links / "x.so");
  chmod(links.c_str(), 0755);
  EXPECT_EQ(find(links / "x.so"), "");
  chmod(links.c_str(), 0777);
  EXPECT_NE(find(links / "x.so").find("by everybody"), std::string::npos) << find(links / "x.so");
  // The same behind another link.
  std::filesystem::remove(file_);
  folder_.write("root/x/1.0.0/real.so", "bytes");
  chmod((root_ / "x/1.0.0/real.so").c_str(), 0644);
  std::filesystem::remove(links / "x.so");
  std::filesystem::create_symlink("../x/1.0.0/real.so", links / "x.so");
  std::filesystem::create_symlink(links / "x.so", file_);
  EXPECT_NE(find().find("by everybody"), std::string::npos) << find();
}

TEST_F(Trust, RefusesALinkOutOfItsRoot) {
  const auto outside = folder_.write("outside.so", "bytes");
  std::filesystem::remove(file_);
  std::filesystem::create_symlink(outside, file_);
  EXPECT_NE(find().find("outside of"), std::string::npos) << find();
}

TEST_F(Trust, RefusesAnotherDigestWithBoth) {
  const std::string other = sha256_hex("other");
  EXPECT_ERROR(check_trust(file_, root_, owners_, other), WEFT_DATA_LOSS, "TRUST", sha256_hex("bytes"), other,
               "install the");
}

TEST_F(Trust, AcceptsWhatOnlyTheOwnerCanWrite) {
  EXPECT_EQ(find(), "");
  chmod(root_.c_str(), 01777);  // as /tmp
  EXPECT_EQ(find(), "");
  EXPECT_NO_THROW(check_trust(file_, root_, owners_, sha256_hex("bytes")));
}

TEST_F(Trust, AcceptsALinkThatStaysInside) {
  const auto target = folder_.write("root/x/1.0.0/real.so", "bytes");
  chmod(target.c_str(), 0644);
  std::filesystem::remove(file_);
  std::filesystem::create_symlink("real.so", file_);
  EXPECT_EQ(find(), "");
}

}  // namespace
}  // namespace weft::host
