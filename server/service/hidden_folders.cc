#include "server/service/hidden_folders.h"

#include <algorithm>
#include <iterator>

#include "client/error_details.h"

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

// ErrnoStatus ends a message with one of these, after the path, if the code is NOT_FOUND.
constexpr std::string_view kFileReasons[] = {": No such file or directory", ": Not a directory"};

// Returns the position of the first reason from `at` on, or npos.
size_t FindFileReason(std::string_view text, size_t at) {
  size_t first = text.npos;
  for (const std::string_view reason : kFileReasons) first = std::min(first, text.find(reason, at));
  return first;
}

bool BeginsPath(std::string_view text, size_t at) {
  return text[at] == '/' && (at == 0 || kBefore.find(text[at - 1]) != kBefore.npos);
}

// Returns the text with the paths of files that were not found cut to their last components. Such a path may have
// spaces.
std::string WithoutFoldersOfFiles(std::string_view text) {
  std::string shown;
  size_t at = 0;
  for (size_t end = FindFileReason(text, 0); end != text.npos; end = FindFileReason(text, end + 1)) {
    size_t begin = at;
    while (begin < end && !BeginsPath(text, begin)) ++begin;
    shown += text.substr(at, begin - at);
    const std::string_view path = text.substr(begin, end - begin);
    shown += path.substr(path.rfind('/') + 1);
    at = end;
  }
  shown += text.substr(at);
  return shown;
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
    if (!BeginsPath(text, at)) {
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

absl::Status ForClient(const absl::Status& status) {
  if (status.ok()) return status;
  // The client has sent this path itself.
  if (absl::IsNotFound(status) && client::FieldOf(status) == "path") return status;
  return client::WithText(status, IsAboutTheRequest(status.code()) ? WithoutFoldersOfFiles : WithoutFolders);
}

void HideFolders(v1::CollectionInfo& info) {
  info.clear_path();
  info.set_error(WithoutFolders(info.error()));
  if (info.has_live()) info.mutable_live()->set_error(WithoutFolders(info.live().error()));
}

}  // namespace maxsim::service
