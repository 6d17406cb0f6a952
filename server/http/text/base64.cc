#include "server/http/text/base64.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/text.h"

namespace maxsim::http {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // some milliseconds
constexpr std::string_view kBlanks = " \t\n\v\f\r";

bool Decode(std::string_view text, std::string* bytes) {
  if (bytes->empty()) return absl::Base64Unescape(ForStrCat(text), bytes);
  std::string decoded;
  if (!absl::Base64Unescape(ForStrCat(text), &decoded)) return false;
  *bytes += decoded;
  return true;
}

}  // namespace

absl::StatusOr<bool> DecodeBase64(std::string_view text, const StopCheck& stop, std::string* bytes) {
  if (text.size() <= kPieceBytes) return Decode(text, bytes);
  std::string piece;  // without white space; begins with the rest of the last piece, up to 3 characters
  bool padded = false;
  for (; !text.empty(); text.remove_prefix(std::min(kPieceBytes, text.size()))) {
    if (stop != nullptr) {
      if (absl::Status status = stop(); !status.ok()) return status;
    }
    for (const char c : text.substr(0, kPieceBytes)) {
      if (kBlanks.find(c) == std::string_view::npos) piece += c;
    }
    const bool is_last = text.size() <= kPieceBytes;
    const size_t whole = is_last ? piece.size() : piece.size() / 4 * 4;
    if (whole == 0) continue;
    if (padded || !Decode(std::string_view(piece).substr(0, whole), bytes)) return false;
    padded = piece[whole - 1] == '=';
    piece.erase(0, whole);
  }
  return true;
}

}  // namespace maxsim::http
