// What a rank is doing: a note in memory that the launcher reads when it has to say what a rank was at.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Notes what this process does from now on, as words that follow "was": "in step 12". Longer texts are cut at
// 200 bytes. Costs one write to memory; nobody is woken. Any thread; never throws.
void note_activity(std::string_view text) noexcept;

// Returns the last note of this process; "" before the first.
std::string current_activity();

// Says that this process has work to finish, for as long as it lives. If it ends meanwhile, the launcher
// takes that for a failure, whatever the exit code. Costs two writes to memory; never throws.
class Unfinished {
 public:
  Unfinished() noexcept;
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
};

// Notes "in NAME" for as long as it lives and "after NAME" from then on. After an exception the note stays,
// since whoever tells of the failure wants to say where it happened.
class Activity {
 public:
  explicit Activity(std::string name);
  ~Activity();
  Activity(const Activity&) = delete;

 private:
  const Unfinished unfinished_;
  std::string name_;
  int exceptions_;
};

// Adds to the note for as long as it lives: "in step 12" becomes "in step 12, WORDS". After an exception the
// note stays.
class ActivityDetail {
 public:
  explicit ActivityDetail(const std::string& words);
  ~ActivityDetail();
  ActivityDetail(const ActivityDetail&) = delete;

 private:
  std::string outer_;
  int exceptions_;
};

}  // namespace weft
