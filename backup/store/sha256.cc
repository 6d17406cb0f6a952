#include "backup/store/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <new>

#include "absl/strings/escaping.h"
#include "base/text.h"

namespace maxsim::backup {
namespace {

// OpenSSL's digests fail only if memory runs out, or if OpenSSL was built without SHA-256.
void RequireDigest(int result) {
  if (result != 1) throw std::bad_alloc();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  RequireDigest(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::Update(std::string_view bytes) {
  RequireDigest(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::TakeHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  RequireDigest(EVP_DigestFinal_ex(context_.get(), digest, &count));
  RequireDigest(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  return Hex({reinterpret_cast<const char*>(digest), count});
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.TakeHex();
}

std::string HmacSha256(std::string_view key, std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), digest, &count);
  if (made == nullptr) throw std::bad_alloc();
  return {reinterpret_cast<const char*>(digest), count};
}

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(ForStrCat(bytes)); }

}  // namespace maxsim::backup
