#include "server/service/hidden_folders.h"

#include <algorithm>
#include <iterator>

#include "client/error_details.h"

namespace maxsim::service {
namespace {

// A path begins at the start of the text or after one of these characters. The slashes within a URL begin no path.
constexpr std::string_view kBefore = " \t\n\"'(=[,";
// A path of the HTTP API ends at one of these characters. The path of a file does not, because a folder's name may
// contain any of them.
constexpr std::string_view kBehindApiPath = " \t\n\"'),;]";
// If a path ends with a slash, one of these may follow that slash in a message.
constexpr std::string_view kBehindLastSlash = "\"'),;:]";

// Paths of the HTTP API begin with one of these. They are not cut, because they tell the client which path to call.
constexpr std::string_view kApiPaths[] = {"/v1/", "/v2/", "/text/"};

bool IsApiPath(std::string_view path) {
  return std::any_of(std::begin(kApiPaths), std::end(kApiPaths),
                     [path](auto begin) { return path.starts_with(begin); });
}

// A NOT_FOUND message of ErrnoStatus ends with a path and one of these.
constexpr std::string_view kFileReasons[] = {": No such file or directory", ": Not a directory"};

// Returns the position of the first of kFileReasons from `at` on, or npos.
size_t FindFileReason(std::string_view text, size_t at) {
  size_t first = text.npos;
  for (const std::string_view reason : kFileReasons) first = std::min(first, text.find(reason, at));
  return first;
}

bool EndsAt(std::string_view text, size_t at) {
  return at == text.size() || kBehindLastSlash.find(text[at]) != kBehindLastSlash.npos;
}

bool BeginsPath(std::string_view text, size_t at) {
  if (text[at] != '/' || (at > 0 && kBefore.find(text[at - 1]) == kBefore.npos)) return false;
  return !EndsAt(text, at + 1) && text[at + 1] != ' ';  // a slash between words is no path
}

// Returns the end of the longest part of `text` that begins at `begin` and may be one path. It never extends into a
// URL.
size_t EndOfPath(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && text[end] != '\n' && !BeginsPath(text, end)) ++end;
  const size_t scheme_end = text.substr(0, end).find("://", begin);
  if (scheme_end == text.npos) return end;
  const size_t space = text.rfind(' ', scheme_end);
  return space == text.npos || space <= begin ? end : space + 1;
}

// Takes a text that begins with a path, and removes everything up to its last slash, which are the path's folders. If
// words stand between two slashes, they are removed, too, because they may be part of a folder's name.
std::string WithoutFoldersOfPath(std::string_view text) {
  size_t last = text.rfind('/');
  std::string_view ending;
  if (last > 0 && EndsAt(text, last + 1)) {
    ending = text.substr(last + 1);
    text = text.substr(0, last);
    last = text.rfind('/');
  }
  return std::string(text.substr(last + 1)).append(ending);
}

// Returns the text with the paths of files that were not found cut to their last component. These paths may contain
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
    if (IsApiPath(text.substr(at))) {
      const size_t end = std::min(text.find_first_of(kBehindApiPath, at), text.size());
      shown += text.substr(at, end - at);
      at = end;
      continue;
    }
    const size_t end = EndOfPath(text, at);
    shown += WithoutFoldersOfPath(text.substr(at, end - at));
    at = end;
  }
  return shown;
}

absl::Status ForClient(const absl::Status& status) {
  if (status.ok()) return status;
  // The client itself has sent this path, so it may see it.
  if (absl::IsNotFound(status) && client::FieldOf(status) == "path") return status;
  return client::WithText(status, IsAboutTheRequest(status.code()) ? WithoutFoldersOfFiles : WithoutFolders);
}

void HideFolders(v1::CollectionInfo& info) {
  info.clear_path();
  info.set_error(WithoutFolders(info.error()));
  if (info.has_live()) info.mutable_live()->set_error(WithoutFolders(info.live().error()));
}

}  // namespace maxsim::service
