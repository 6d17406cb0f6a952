#include "server/tls/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace maxsim {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free>;

// The ciphers for TLS 1.2: those with forward secrecy and authenticated encryption. TLS 1.3 has only such ciphers, so
// its list is left as it is.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

// Limit on a client's certificate chain, which OpenSSL reads into memory before it checks it. Typical chains have
// about 5 KiB.
constexpr size_t kMaxClientChainBytes = 32 * 1024;

// The only protocol that is accepted in ALPN (RFC 7301), in its form on the wire: the length of its name, and the name.
constexpr unsigned char kProtocol[] = "\x08http/1.1";
constexpr unsigned kProtocolBytes = sizeof(kProtocol) - 1;

Bio Open(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

// Returns an empty pass phrase for every key, as gRPC does. Without this callback OpenSSL would ask on the terminal.
char* NoPassPhrase() {
  static char empty[] = "";
  return empty;
}

// Returns the reason of the last error, and clears OpenSSL's queue of errors.
std::string TakeReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "no reason given" : reason;
}

// Returns the certificates in `pem` in their order. The first one of a server's chain is the server's own. Returns
// INVALID_ARGUMENT if there is no certificate, or if one is damaged.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const char* key, const std::string& path,
                                                          const std::string& pem) {
  std::vector<Certificate> certificates;
  const Bio bio = Open(pem);
  while (Certificate certificate{PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, NoPassPhrase())}) {
    certificates.push_back(std::move(certificate));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeReason();
  if (certificates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", path, " holds no certificate in PEM"));
  }
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", path, " holds a certificate, after ", certificates.size(),
                                                   " others, that cannot be read: ", reason));
  }
  return certificates;
}

absl::Status UseOwn(const TlsPem& pem, const TlsFiles& files, SSL_CTX* context) {
  const auto chain = ReadCertificates("tls.cert_file", files.cert_file, pem.cert_chain);
  if (!chain.ok()) return chain.status();
  const PrivateKey key(PEM_read_bio_PrivateKey(Open(pem.private_key).get(), nullptr, nullptr, NoPassPhrase()));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.key_file: ", files.key_file, " holds no private key in PEM without a pass phrase"));
  }
  bool takes_chain = SSL_CTX_use_certificate(context, chain->front().get()) == 1;
  for (size_t i = 1; takes_chain && i < chain->size(); ++i) {
    takes_chain = SSL_CTX_add1_chain_cert(context, (*chain)[i].get()) == 1;
  }
  if (!takes_chain) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.cert_file: OpenSSL rejects the certificate in ", files.cert_file, ": ", TakeReason()));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1) {
    return absl::OkStatus();
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(
      "tls.key_file: ", files.key_file, " is not the key of the certificate in tls.cert_file, ", files.cert_file));
}

absl::Status AskClients(const TlsPem& pem, const TlsFiles& files, SSL_CTX* context) {
  const auto authorities = ReadCertificates("tls.client_ca_file", files.client_ca_file, pem.client_ca);
  if (!authorities.ok()) return authorities.status();
  for (const Certificate& authority : *authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return absl::InvalidArgumentError(absl::StrCat("tls.client_ca_file: OpenSSL rejects a certificate in ",
                                                     files.client_ca_file, ": ", TakeReason()));
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_max_cert_list(context, kMaxClientChainBytes);
  return absl::OkStatus();
}

// Chooses HTTP/1.1. Refuses a client that offers other protocols only, since it would not understand the answers.
int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes, const unsigned char* offered,
                   unsigned offered_bytes, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_bytes, kProtocol, kProtocolBytes, offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

absl::StatusOr<TlsContext> MakeTlsContext(const TlsPem& pem, const TlsFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()), [](SSL_CTX* old) { SSL_CTX_free(old); });
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), kCiphers) != 1) {
    return absl::InternalError(absl::StrCat("OpenSSL cannot serve TLS 1.2: ", TakeReason()));
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // Idle connections give up their 16 KiB buffers. A write may send a part of an answer, and retry from memory that has
  // moved.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Return to the caller after a TLS record without data, such as a key update. Otherwise one read would go on for as
  // long as a client sends such records.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_alpn_select_cb(context.get(), SelectProtocol, nullptr);
  if (absl::Status status = UseOwn(pem, files, context.get()); !status.ok()) return status;
  if (pem.client_ca.empty()) return context;
  if (absl::Status status = AskClients(pem, files, context.get()); !status.ok()) return status;
  return context;
}

}  // namespace maxsim
