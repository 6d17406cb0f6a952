#include "server/http/document_path.h"

#include <cstddef>

namespace maxsim::http {
namespace {

constexpr std::string_view kCollections = "/v1/collections/";
constexpr std::string_view kDocuments = "documents";

// An id of this name is read by GET, as any other one.
constexpr std::string_view kGetName = "get";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::optional<DocumentPath> ParseDocumentPath(std::string_view path) {
  if (!path.starts_with(kCollections)) return std::nullopt;
  path.remove_prefix(kCollections.size());
  const size_t name_end = path.find('/');
  if (name_end == path.npos || name_end == 0) return std::nullopt;
  std::optional<std::string> name = PercentDecode(path.substr(0, name_end));
  path.remove_prefix(name_end + 1);
  if (!name.has_value() || !path.starts_with(kDocuments)) return std::nullopt;
  path.remove_prefix(kDocuments.size());
  if (path.empty()) return DocumentPath{*std::move(name), ""};
  // A slash of the id itself is encoded.
  if (path.size() < 2 || path[0] != '/' || path.find('/', 1) != path.npos) return std::nullopt;
  std::optional<std::string> id = PercentDecode(path.substr(1));
  if (!id.has_value()) return std::nullopt;
  return DocumentPath{*std::move(name), *std::move(id)};
}

std::optional<DocumentCall> FindDocumentCall(std::string_view method, const DocumentPath& path) {
  if (path.id.empty()) {
    if (method == "PUT") return DocumentCall::kUpsert;
    if (method == "DELETE") return DocumentCall::kDelete;
    return std::nullopt;
  }
  if (method == "GET" || method == "HEAD") return DocumentCall::kGetOne;
  if (method == "POST" && path.id == kGetName) return DocumentCall::kGet;
  return std::nullopt;
}

std::string_view MethodsOf(const DocumentPath& path) {
  if (path.id.empty()) return "DELETE, PUT";
  return path.id == kGetName ? "GET, HEAD, POST" : "GET, HEAD";
}

}  // namespace maxsim::http
