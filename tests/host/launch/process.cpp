#include "host/launch/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdlib>
#include <map>

namespace weft::launch {
namespace {

constexpr int kPatienceMs = 10000;

std::string contents(int fd) {
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

bool is_launch_variable(const std::string& entry) {
  for (const char* prefix : {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "WEFT_",
                             "OMP_NUM", "TEST_"}) {
    if (entry.starts_with(prefix)) return true;
  }
  return false;
}

[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                         int input, int out, int error) {
  std::vector<char*> arguments, variables;
  for (const std::string& text : command) arguments.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : environment) variables.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  dup2(input, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) ::signal(number, SIG_DFL);
  execvpe(arguments[0], arguments.data(), variables.data());
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const ProcessOptions& options) {
  int ready[2], to_0[2], to_1[2];  // all inherited through the launcher
  if (pipe(ready) != 0 || pipe(to_0) != 0 || pipe(to_1) != 0) std::abort();
  const Descriptor ready_write(ready[1]), take_0(to_0[0]), give_0(to_0[1]), take_1(to_1[0]), give_1(to_1[1]);
  ready_ = Descriptor(ready[0]);
  fcntl(ready_.get(), F_SETFD, FD_CLOEXEC);
  out_ = Descriptor(memfd_create("out", MFD_CLOEXEC));
  error_ = Descriptor(memfd_create("error", MFD_CLOEXEC));
  // The ranks share these files. A memfd does not lock its position, so two ranks that write at once would
  // write to the same place without O_APPEND.
  for (const Descriptor* file : {&out_, &error_}) fcntl(file->get(), F_SETFL, O_APPEND);
  const Descriptor input(memfd_create("input", MFD_CLOEXEC));
  if (write(input.get(), options.input.data(), options.input.size()) < 0) std::abort();
  lseek(input.get(), 0, SEEK_SET);

  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_launch_variable(*entry)) environment.emplace_back(*entry);
  }
  const std::pair<const char*, const Descriptor*> pipes[] = {{"TEST_READY_FD=", &ready_write},
                                                             {"TEST_TAKE_FD_0=", &take_0},
                                                             {"TEST_GIVE_FD_0=", &give_0},
                                                             {"TEST_TAKE_FD_1=", &take_1},
                                                             {"TEST_GIVE_FD_1=", &give_1}};
  for (const auto& [name, end] : pipes) environment.push_back(name + std::to_string(end->get()));
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  const int error = options.error_fd >= 0 ? options.error_fd : error_.get();
  pid_ = fork();
  if (pid_ == 0) become(command, environment, input.get(), out_.get(), error);
  handle_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

Process::~Process() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  kill(pid_, number);
}

bool Process::wait_for_ready(int count) {
  for (char byte; count > 0; --count) {
    pollfd event = {ready_.get(), POLLIN, 0};
    if (poll(&event, 1, kPatienceMs) != 1 || read(ready_.get(), &byte, 1) != 1) return false;
  }
  return true;
}

bool Process::wait_for_silence() {
  for (char byte;;) {
    pollfd event = {ready_.get(), POLLIN, 0};
    if (poll(&event, 1, kPatienceMs) != 1) return false;
    if (read(ready_.get(), &byte, 1) == 0) return true;
  }
}

bool Process::ended(int timeout_ms) {
  pollfd event = {handle_.get(), POLLIN, 0};
  return poll(&event, 1, timeout_ms) == 1;
}

Output Process::finish() {
  if (!ended(6 * kPatienceMs)) {
    ADD_FAILURE() << "the launcher hangs";
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out_.get()),
          contents(error_.get())};
}

void expect_quiet_end(Process& process, int exit_code) {
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, exit_code);
  EXPECT_EQ(output.error, "");
}

Output run_launcher(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  std::vector<std::string> command = {RANK_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command, options).finish();
}

std::vector<std::string> launcher(int num_ranks, const std::vector<std::string>& steps) {
  std::vector<std::string> command = {RANK_PROGRAM, "run", std::to_string(num_ranks), RANK_PROGRAM, "rank"};
  command.insert(command.end(), steps.begin(), steps.end());
  return command;
}

}  // namespace weft::launch
