#include "tools/maxsimctl/maxsimctl.h"

#include <algorithm>
#include <exception>
#include <sstream>

#include "absl/status/status.h"
#include "maxsim_version.h"
#include "tools/command_line/checks.h"
#include "tools/command_line/server_target.h"
#include "tools/command_line/terminal.h"
#include "tools/command_line/usage_message.h"
#include "tools/maxsimctl/backup/commands.h"
#include "tools/maxsimctl/cluster/commands.h"
#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/evaluate/commands.h"
#include "tools/maxsimctl/read/commands.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

constexpr char kFooter[] = R"(Examples:
  maxsimctl collections
  maxsimctl rerank --collection passages --query query.npy --ids 17,4,2041 --payload
  maxsimctl rerank --collection passages --query queries.npy --query-lengths lengths.npy --query-index 3 --all --json
  maxsimctl explain --collection passages --query query.npy --id 17
  maxsimctl rerank --collection passages --text "how do birds fly" --all
  maxsimctl verify --collection passages --queries queries.npy --query-lengths lengths.npy --top-k 100
  maxsimctl upsert notes --documents notes.jsonl
  maxsimctl compare-runs bm25.run reranked.run --qrels qrels.tsv

Results go to standard output, remarks and errors to standard error.
Exit codes: 0 done; 1 failed, a check did not pass, or a file or the server does not fit the command line (several
collections and no --collection); 2 the command line is wrong.)";

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--server", options.server, "Address of maxsimd; of several that a name has, the first that answers")
      ->envname("MAXSIM_SERVER")
      ->capture_default_str()
      ->transform(CLI::Validator(command_line::TakeServerTarget, ""))
      ->type_name("HOST:PORT");
  app.add_option("--token-file", options.token_file,
                 "File whose first token is sent; lines that begin with # are comments")
      ->type_name("FILE");
  app.add_option("--client-id", options.client_id, "Name whose share of a busy server the calls take")
      ->type_name("NAME");
  app.add_option("--client-key", options.client_key, "Metadata key of --client-id: the server's batching.client_key")
      ->capture_default_str()
      ->type_name("KEY");
  app.add_option(
         "--timeout", options.timeout_seconds,
         "Seconds one call may take, retries included; for load, reload, unload, create, compact\nand snapshot at "
         "least 600, for bootstrap at least 21600")
      ->check(CLI::Range(0.001, 86400.0))
      ->check(command_line::NotNan)
      ->capture_default_str()
      ->type_name("SECONDS");
  app.add_flag("--json", options.json, "Print JSON");
  app.add_option("--color", options.color, "Colours: auto (a terminal, unless NO_COLOR is set), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->type_name("WHEN");
  CLI::Option* tls = app.add_flag("--tls", options.tls.enabled, "Connect with TLS");
  app.add_option("--tls-ca", options.tls.ca_file,
                 "Certificates that may sign the server's (PEM); the system's by default")
      ->needs(tls)
      ->type_name("FILE");
  CLI::Option* cert = app.add_option("--tls-cert", options.tls.cert_file, "This client's certificate (PEM)");
  CLI::Option* key = app.add_option("--tls-key", options.tls.key_file, "This client's private key (PEM)");
  cert->needs(tls)->needs(key)->type_name("FILE");
  key->needs(tls)->needs(cert)->type_name("FILE");
  app.add_option("--tls-server-name", options.tls.server_name, "Name expected in the server's certificate")
      ->needs(tls)
      ->type_name("NAME");
}

// Returns the innermost command on the command line; `app` if there is none.
const CLI::App& InnermostCommand(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// Returns a message that says what is wrong with the command line.
std::string UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = InnermostCommand(app);
  const std::vector<const CLI::App*> possible = command.get_subcommands(nullptr);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (possible.empty() || rest.empty() || rest.front().substr(0, 1) == "-") {
    return command_line::UsageMessage(app, error);
  }
  std::string known;
  for (const CLI::App* one : possible) known += (known.empty() ? "" : ", ") + one->get_name();
  return (&command == &app ? std::string("no subcommand \"") : command.get_name() + " has no subcommand \"") +
         rest.front() + "\"; there are " + known;
}

// One line, whatever the message holds.
std::string OneLine(const absl::Status& status) {
  std::string code = absl::StatusCodeToString(status.code());
  return command_line::WithoutControls(code + ": " + std::string(status.message()));
}

}  // namespace

int RunMaxsimctl(const std::vector<std::string>& arguments, const Environment& environment) {
  Context context(environment);
  CLI::App app(
      "Asks a maxsimd server: rerank, explain and check answers, and manage its collections and their documents.",
      "maxsimctl");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("maxsimctl ") + kVersion + " (" + kCommit + ")");
  app.require_subcommand(1);
  app.fallthrough();  // global options may follow the command
  AddGlobalOptions(app, context.options);
  AddRerank(app, context);
  AddExplain(app, context);
  AddInfo(app, context);
  AddCollections(app, context);
  AddLoad(app, context);
  AddReload(app, context);
  AddUnload(app, context);
  AddCreate(app, context);
  AddUpsert(app, context);
  AddDelete(app, context);
  AddGet(app, context);
  AddScroll(app, context);
  AddCount(app, context);
  AddFacets(app, context);
  AddCompact(app, context);
  AddSnapshot(app, context);
  AddBootstrap(app, context);
  AddCluster(app, context);
  AddVerify(app, context);
  AddEvaluate(app, context);
  AddCompareRuns(app, context);

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes a vector in reverse
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help, --version
      app.exit(error, environment.out, environment.err);
      return kExitOk;
    }
    std::string help = "maxsimctl --help";
    std::string path;
    for (const CLI::App* one = &InnermostCommand(app); one != &app; one = one->get_parent()) {
      path = " " + one->get_name() + path;
    }
    if (!path.empty()) help += " and maxsimctl" + path + " --help";
    environment.err << "maxsimctl: " << command_line::WithoutControls(UsageError(app, error)) << " (see " << help
                    << ")\n";
    return kExitUsage;
  } catch (const std::exception& error) {  // of a library: nothing here throws
    environment.err << "maxsimctl: " << command_line::WithoutControls(error.what()) << '\n';
    return kExitFailed;
  }
  environment.out.flush();
  if (!context.result.ok()) {
    environment.err << "maxsimctl: " << OneLine(context.result) << '\n';
    return kExitFailed;
  }
  if (!environment.out) {
    environment.err << "maxsimctl: cannot write the results to standard output\n";
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace maxsim::ctl
