#include "server/service/hidden_folders.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace maxsim::service {
namespace {

// A path begins at the start of the text or after one of these characters. The slashes in a URL do not.
constexpr std::string_view kBefore = " \t\n\"'(=[,";
constexpr std::string_view kBehind = " \t\n\"'),;]";

// Paths of the HTTP API begin with one of these. They are kept, because they tell the client which path to call.
constexpr std::string_view kApiPaths[] = {"/v1/", "/v2/", "/text/"};

bool IsApiPath(std::string_view path) {
  return std::any_of(std::begin(kApiPaths), std::end(kApiPaths),
                     [path](auto begin) { return path.starts_with(begin); });
}

size_t EndOfPath(std::string_view text, size_t begin) {
  size_t end = std::min(text.find_first_of(kBehind, begin), text.size());
  // A colon before an explanation is not part of the path.
  while (end > begin + 1 && text[end - 1] == ':') --end;
  return end;
}

bool IsAboutTheRequest(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string WithoutFolders(std::string_view text) {
  std::string shown;
  size_t at = 0;
  while (at < text.size()) {
    const bool begins = text[at] == '/' && (at == 0 || kBefore.find(text[at - 1]) != kBefore.npos);
    if (!begins) {
      shown += text[at++];
      continue;
    }
    const size_t end = EndOfPath(text, at);
    std::string_view path = text.substr(at, end - at);
    if (IsApiPath(path)) {
      shown += path;
      at = end;
      continue;
    }
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    shown += path.size() == 1 ? path : path.substr(path.rfind('/') + 1);
    at = end;
  }
  return shown;
}

std::string MessageForClient(absl::StatusCode code, std::string_view message) {
  return IsAboutTheRequest(code) ? std::string(message) : WithoutFolders(message);
}

absl::Status ForClient(const absl::Status& status) {
  if (status.ok() || IsAboutTheRequest(status.code())) return status;
  return WithMessage(status, WithoutFolders(std::string(status.message())));
}

void HideFolders(v1::CollectionInfo& info) {
  info.clear_path();
  info.set_error(WithoutFolders(info.error()));
  if (info.has_live()) info.mutable_live()->set_error(WithoutFolders(info.live().error()));
}

}  // namespace maxsim::service
