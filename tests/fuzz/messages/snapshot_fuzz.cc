// Fuzzes the receiver of snapshots that other servers send. The first line of the input is the announced size. Each
// further line is a message, whose kind is its first letter:
//   f PATH=DATA  a file with its checksum, and then its data
//   F PATH=N     a file of N bytes without its checksum
//   d DATA       data;  b  a second beginning;  other letters: a message without contents
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/service/bootstrap/snapshot_receiver.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

// A folder of this process, with nothing but the folder `to`.
std::string EmptyFolder() {
  static const std::string folder = [] {
    std::string name = std::filesystem::temp_directory_path().string() + "/maxsim-fuzz-XXXXXX";
    Require(mkdtemp(name.data()) != nullptr, "there is a folder");
    return name;
  }();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/to");
  return folder;
}

std::vector<v1::ReadSnapshotResponse> MessagesOfLine(std::string_view line) {
  std::vector<v1::ReadSnapshotResponse> messages(1);
  const char kind = line.empty() ? 'n' : line.front();
  const std::string rest(line.substr(std::min<size_t>(2, line.size())));
  const std::string path = rest.substr(0, rest.find('='));
  const std::string data = rest.substr(std::min(path.size() + 1, rest.size()));
  if (kind == 'd') messages[0].set_data(rest);
  if (kind == 'b') messages[0].mutable_begin();
  if (kind != 'f' && kind != 'F') return messages;
  // The message is not sent, so the path need not be UTF-8.
  messages[0].mutable_file()->set_path(path);
  messages[0].mutable_file()->set_bytes(data.size());
  messages[0].mutable_file()->set_xxh3(XXH3_64bits(data.data(), data.size()));
  if (kind == 'F') {
    uint64_t num_bytes = 0;
    messages[0].mutable_file()->set_bytes(absl::SimpleAtoi(data, &num_bytes) ? num_bytes : 0);
    messages[0].mutable_file()->set_xxh3(0);
  } else if (!data.empty()) {
    messages.emplace_back().set_data(data);
  }
  return messages;
}

void FuzzSnapshot(std::string_view input) {
  const std::vector<std::string> lines = absl::StrSplit(std::string(input), '\n');
  uint64_t total_bytes = 0;
  if (!absl::SimpleAtoi(lines.front(), &total_bytes)) return;
  const std::string folder = EmptyFolder();
  absl::Status status;
  bool is_complete = false;
  {
    service::SnapshotReceiver receiver(folder + "/to", total_bytes);
    for (size_t i = 1; i < lines.size() && status.ok(); ++i) {
      for (const v1::ReadSnapshotResponse& message : MessagesOfLine(lines[i])) {
        if (status.ok()) status = receiver.Take(message);
      }
    }
    if (status.ok()) status = receiver.End();
    is_complete = status.ok();
    Require(receiver.num_bytes() <= total_bytes, "no more bytes are taken than were announced");
  }
  const std::string_view message(status.message().data(), status.message().size());
  Require(is_complete || (!message.empty() && IsUtf8(message)), "an error says in UTF-8 what is wrong");
  uint64_t num_bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    Require(!entry.is_symlink(), "no link is made");
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().lexically_relative(folder).string();
    Require(path.starts_with("to/"), "no file is written outside of the folder");
    Require(!path.ends_with(".tmp"), "no unfinished file is left");
    num_bytes += entry.file_size();
  }
  Require(num_bytes <= total_bytes, "the files have no more bytes than were announced");
  Require(!is_complete || (num_bytes == total_bytes && std::filesystem::exists(folder + "/to/collection.json")),
          "a complete snapshot has all bytes, and a manifest");
}

const Registration kSnapshotTarget("snapshot", &FuzzSnapshot);

}  // namespace
}  // namespace maxsim::fuzz
