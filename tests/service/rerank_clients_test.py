"""Tests unmodified clients of rerank services with maxsimd and maxsim-encoder. Texts must get exactly the scores of
their vectors. Strings may also be ids of stored documents. The server's errors must be visible to the clients' users.

python rerank_clients_test.py FOLDER_OF_THE_PROGRAMS [PACKAGE...]      default: every package of rerank_clients.CLIENTS
"""

import base64
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "demo"
sys.path[:0] = [str(HERE), str(HERE / "client")]

from encoder_fixture import Program, call, read_safetensors, split_rows  # noqa: E402
from program_fixture import Maxsimd  # noqa: E402
from rerank_clients import CLIENTS, THEIR_MODEL, CohereV1, CohereV2, HaystackJina, LiteLlm, Voyage, Xinference  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
# The packages of the default share an environment.
PACKAGES = sys.argv[1:] or [package for package in CLIENTS if package != "litellm"]
KEY = "key-of-the-rerank-clients"
QUERY = "How does bread dough rise, and what gives a loaf its crust?"
# More documents than limits.default_top_k, because this limit must not apply to lists of texts. Fewer than
# encoder.max_batch_texts, so that all texts are in one batch: the model's results are rounded differently in another
# batch.
NUM_DOCUMENTS = 15
# The server scores float16 vectors. Values up to 1 are rounded to steps of 2^-11.
TOLERANCE = 2e-3


class Server(Maxsimd):
    """maxsimd with the bundled collection. Clients need the token KEY."""

    def __init__(self, folder, collection, encoder_url, **more):
        tokens = folder.with_suffix(".tokens")
        tokens.write_text(KEY + "\n")
        # Turns off the circuit breaker. It would tell clients to retry later, and some clients would then wait.
        flags = {"encoder.url": encoder_url, "encoder.breaker_failures": 0, "auth.tokens_file": tokens, **more}
        super().__init__(PROGRAMS, folder, collection, **flags)

    def rank_vectors(self, query, documents):
        """Ranks by the vectors of the query and of each document. Returns [(position, score)]."""
        inline = [{"tokens": matrix(tokens)} for tokens in documents]
        body = {"model": "demo", "query": matrix(query), "documents": inline, "top_n": len(inline)}
        status, _, data = call(self.port, "POST", "/v1/rerank", body, {"Authorization": f"Bearer {KEY}"})
        assert status == 200, data
        return [(result["index"], result["relevance_score"]) for result in json.loads(data)["results"]]


def matrix(tokens):
    """Returns token vectors as JSON."""
    data = base64.b64encode(np.ascontiguousarray(tokens, "<f4")).decode()
    return {"dtype": "f32", "shape": list(tokens.shape), "data": data}


def encode(port, kind, texts):
    """Makes one call of the encoder. Returns the token vectors of each text."""
    status, _, data = call(port, "POST", "/encode", {"kind": kind, "texts": texts})
    assert status == 200, data
    return split_rows(read_safetensors(data)[0])


class World:
    """What the tests share: the encoder, a server that uses it, a server whose encoder does not exist, texts, and
    correct answers."""

    def __init__(self, folder):
        subprocess.run([DEMO / "build.sh", "--bin", PROGRAMS, "--output", folder / "demo"], check=True)
        encoder = self.start(Program("--demo")).wait_until_ready()
        self.folder, self.encoder_url = folder, f"http://127.0.0.1:{encoder.port}"
        self.server = self.start(Server(folder / "server", folder / "demo", self.encoder_url))
        # This socket is bound but does not listen, so that its port refuses connections.
        gone = socket.socket()
        unittest.addModuleCleanup(gone.close)
        gone.bind(("127.0.0.1", 0))
        self.deaf = self.start(Server(folder / "deaf", folder / "demo", f"http://127.0.0.1:{gone.getsockname()[1]}"))

        passages = [json.loads(line) for line in open(DEMO / "passages.jsonl", encoding="utf-8")]
        chosen = range(0, len(passages), len(passages) // NUM_DOCUMENTS)[:NUM_DOCUMENTS]
        stored = np.split(np.load(DEMO / "tokens.npy"), np.cumsum(np.load(DEMO / "lengths.npy"))[:-1])
        self.ids = [passages[i]["id"] for i in chosen]
        # Uses only first sentences, which the model encodes three times as fast.
        self.texts = [passages[i]["text"].split(". ")[0] for i in chosen]
        self.query_vectors = encode(encoder.port, "query", [QUERY])[0]
        self.vectors = encode(encoder.port, "document", self.texts)
        self.by_vectors = self.server.rank_vectors(self.query_vectors, self.vectors)
        self.by_stored_vectors = self.server.rank_vectors(self.query_vectors, [stored[i] for i in chosen])

    def start(self, program):
        unittest.addModuleCleanup(program.stop)
        return program


world = None


def setUpModule():
    global world
    temporary = tempfile.TemporaryDirectory(prefix="maxsim-rerank-clients-")
    unittest.addModuleCleanup(temporary.cleanup)
    world = World(pathlib.Path(temporary.name))


def bits(ranking):
    """Returns the positions, and the bits of the scores as float32."""
    return [(index, np.float32(score).tobytes().hex()) for index, score in ranking]


class ReferenceTest(unittest.TestCase):
    """Compares a rerank call with vectors with NumPy. All other tests compare clients with this call."""

    def test_the_call_with_vectors_ranks_by_maxsim(self):
        query = world.query_vectors.astype(np.float64)
        exact = [np.sum((query @ tokens.astype(np.float64).T).max(axis=1)) for tokens in world.vectors]
        self.assertEqual(len(world.by_vectors), NUM_DOCUMENTS)
        self.assertGreater(np.ptp(exact), 100 * TOLERANCE)
        for index, score in world.by_vectors:
            self.assertAlmostEqual(score, exact[index], delta=TOLERANCE * len(query))
        scores = [score for _, score in world.by_vectors]
        self.assertEqual(scores, sorted(scores, reverse=True))

    def test_stored_documents_rank_differently_from_these_texts(self):
        # The collection's vectors are made from titles and texts, so the scores differ. Otherwise the tests could not
        # notice if the server took ids for texts.
        self.assertNotEqual(bits(world.by_stored_vectors), bits(world.by_vectors))


class DropIn:
    """Tests that every client must pass. There is a subclass for each client."""

    make = None

    @classmethod
    def setUpClass(cls):
        cls.client = cls.make()

    def rank(self, server, path, documents, key=KEY, **options):
        return self.client.rank(server.url + path, key, QUERY, documents, **options)

    def expect_error(self, words, *arguments, **options):
        """Expects the call to raise an error. If the client shows the server's errors, the error must contain these
        words."""
        with self.assertRaises(Exception) as raised:
            self.rank(*arguments, **options)
        if self.client.shows_errors:
            self.assertIn(words, self.client.shown(raised.exception))

    def test_texts_rank_as_their_vectors_do_with_the_same_bits(self):
        self.assertEqual(bits(self.rank(world.server, "/text", world.texts)), bits(world.by_vectors))

    def test_one_text_is_enough_where_more_are_asked_for(self):
        ((index, score),) = self.rank(world.server, "/text", world.texts[:1], top_n=3)
        self.assertEqual(index, 0)
        self.assertAlmostEqual(score, dict(world.by_vectors)[0], delta=TOLERANCE * len(world.query_vectors))

    def test_strings_are_ids_without_the_base_path(self):
        # If the client sends no model, the server uses its only collection.
        self.assertEqual(bits(self.rank(world.server, "", world.ids, model="demo")), bits(world.by_stored_vectors))

    def test_an_id_that_is_not_stored_is_left_out_or_an_error(self):
        documents = [*world.ids[:-1], "no-such-document"]
        if self.client.wants_all:
            return self.expect_error("no-such-document", world.server, "", documents, model="demo")
        ranking = self.rank(world.server, "", documents, model="demo")
        self.assertEqual(bits(ranking), bits(one for one in world.by_stored_vectors if one[0] < NUM_DOCUMENTS - 1))

    def test_a_wrong_key_is_an_error(self):
        self.expect_error("token", world.server, "/text", world.texts, key="another")

    def test_an_encoder_that_is_gone_is_an_error(self):
        self.expect_error("encoder", world.deaf, "/text", world.texts)


class NamesModel:
    """Tests for clients that send the name of a model."""

    def test_texts_are_scored_as_the_collection_that_the_model_names_scores(self):
        self.assertEqual(bits(self.rank(world.server, "/text", world.texts, model="demo")), bits(world.by_vectors))

    def test_an_unknown_collection_is_an_error(self):
        self.expect_error("no-such-model", world.server, "", world.ids, model="no-such-model")


class Cuts:
    """Tests for clients that may request fewer results than documents."""

    def test_top_n_ends_the_list(self):
        self.assertEqual(bits(self.rank(world.server, "/text", world.texts, top_n=3)), bits(world.by_vectors[:3]))


def only_with(package):
    """A class decorator that removes the tests of a client if its package is not installed in this environment."""
    return lambda case: case if package in PACKAGES else None


@only_with("cohere")
class CohereOptionsTest(unittest.TestCase):
    """Tests members that only Cohere's clients send and read."""

    def ask(self, client, documents, **options):
        url = world.server.url + "/text"
        return client.client(url, KEY).rerank(query=QUERY, documents=documents, **options)

    def test_v1_hands_the_texts_back(self):
        answer = self.ask(CohereV1(), world.texts, return_documents=True)
        self.assertEqual([r.document.text for r in answer.results], [world.texts[i] for i, _ in world.by_vectors])
        self.assertIsInstance(answer.id, str)

    def test_v1_takes_objects_that_say_what_they_are(self):
        options = {"rank_fields": ["text"], "max_chunks_per_doc": 10, "return_documents": True}
        documents = [{"text": text, "title": f"Title {i}"} for i, text in enumerate(world.texts)]
        answer = self.ask(CohereV1(), documents, **options)
        ranking = [(result.index, result.relevance_score) for result in answer.results]
        self.assertEqual(bits(ranking), bits(world.by_vectors))
        self.assertEqual([r.document.title for r in answer.results], [f"Title {i}" for i, _ in world.by_vectors])
        answer = self.ask(CohereV1(), [{"id": id} for id in world.ids], model="demo")
        ranking = [(result.index, result.relevance_score) for result in answer.results]
        self.assertEqual(bits(ranking), bits(world.by_stored_vectors))

    def test_v1_ranks_by_the_fields_that_it_names(self):
        documents = [{"headline": text, "id": i} for i, text in enumerate(world.texts)]
        answer = self.ask(CohereV1(), documents, rank_fields=["headline"])
        ranking = [(result.index, result.relevance_score) for result in answer.results]
        self.assertEqual(bits(ranking), bits(world.by_vectors))

    def test_v2_takes_every_option_of_the_service(self):
        options = {"model": THEIR_MODEL, "top_n": 5, "max_tokens_per_doc": 4096, "priority": 1}
        client = CohereV2()
        if hasattr(client.package, "RerankRelevantSpans"):
            options["relevant_spans"] = client.package.RerankRelevantSpans(mode="disabled")
        answer = self.ask(client, world.texts, **options)
        ranking = [(result.index, result.relevance_score) for result in answer.results]
        self.assertEqual(bits(ranking), bits(world.by_vectors[:5]))

    def test_errors_are_of_the_class_for_their_status(self):
        errors = CohereV2().package
        for key, url, kind in (
            ("another", world.server.url, errors.UnauthorizedError),
            (KEY, world.server.url, errors.NotFoundError),
            (KEY, world.deaf.url + "/text", errors.ServiceUnavailableError),
        ):
            with self.assertRaises(kind) as raised:
                CohereV2().rank(url, key, QUERY, world.ids, model="no-such-model")
            self.assertIsInstance(raised.exception.body["message"], str)


@only_with("haystack")
class HaystackOptionsTest(unittest.TestCase):
    def test_model_and_usage_come_back(self):
        meta = HaystackJina().answer(world.server.url + "/text", KEY, QUERY, world.texts, "demo")["meta"]
        self.assertEqual(meta["model"], "demo")
        self.assertGreater(meta["usage"]["total_tokens"], 0)


@only_with("xinference")
class XinferenceOptionsTest(unittest.TestCase):
    def test_documents_and_their_lengths_come_back(self):
        options = {"return_documents": True, "return_len": True, "max_chunks_per_doc": 3}
        answer = Xinference().answer(world.server.url + "/text", KEY, QUERY, world.texts, THEIR_MODEL, **options)
        texts = [result["document"]["text"] for result in answer["results"]]
        self.assertEqual(texts, [world.texts[i] for i, _ in world.by_vectors])
        self.assertGreater(answer["meta"]["tokens"]["input_tokens"], 0)
        self.assertNotEqual(answer["id"], "")

    def test_a_model_that_is_no_collection_is_an_error_without_text(self):
        with self.assertRaises(RuntimeError) as raised:
            Xinference().rank(world.server.url, KEY, QUERY, world.ids, model="no-such-model")
        self.assertIn("/text/v1/models", str(raised.exception))


# Imitates clients that are large or not on PyPI: sends their requests, and reads the answers as they do.
class OtherServicesTest(unittest.TestCase):
    def ask(self, method, path, body=None):
        status, _, data = call(world.server.port, method, path, body, {"Authorization": f"Bearer {KEY}"})
        return status, json.loads(data)

    def test_ragflow_sends_a_boolean_as_a_string(self):
        body = {"model": THEIR_MODEL, "query": QUERY, "documents": world.texts, "return_documents": "true", "top_n": 3}
        status, answer = self.ask("POST", "/text/v1/rerank", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["results"][0]["document"]["text"], world.texts[world.by_vectors[0][0]])

    def test_langchain4j_reads_what_a_call_costs(self):
        status, answer = self.ask("POST", "/text/v1/rerank", {"model": "m", "query": QUERY, "documents": world.texts})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["meta"]["billed_units"]["search_units"], 1)

    def test_litellm_reads_strings_of_infinity(self):
        body = {"model": "m", "query": QUERY, "documents": world.texts, "return_documents": True}
        status, answer = self.ask("POST", "/text/infinity/rerank", body)
        self.assertEqual(status, 200, answer)
        documents = [result["document"] for result in answer["results"]]
        self.assertEqual(documents, [world.texts[i] for i, _ in world.by_vectors])

    def test_dify_asks_for_the_info_of_tei(self):
        status, answer = self.ask("GET", "/text/info")
        self.assertEqual(status, 200, answer)
        self.assertEqual(list(answer["model_type"]), ["reranker"])
        self.assertGreater(answer["max_client_batch_size"], 0)

    def test_nims_passages_are_ranked(self):
        passages = [{"text": text} for text in world.texts]
        body = {"model": "m", "query": {"text": QUERY}, "passages": passages, "truncate": "END"}
        status, answer = self.ask("POST", "/text/v1/ranking", body)
        self.assertEqual(status, 200, answer)
        ranking = [(one["index"], one["logit"]) for one in answer["rankings"]]
        self.assertEqual(bits(ranking), bits(world.by_vectors))


@only_with("litellm")
class LiteLlmOptionsTest(unittest.TestCase):
    def test_jinas_client_drops_the_base_path(self):
        """Jina's client always calls /v1/rerank, without the base path. This path accepts texts if http.root_documents
        is "texts"."""
        server = Server(world.folder / "rooted", world.folder / "demo", world.encoder_url, http__root_documents="texts")
        self.addCleanup(server.stop)
        client = LiteLlm("jina_ai")
        for path in ("", "/text"):
            with self.subTest(path=path):
                ranking = client.rank(server.url + path, KEY, QUERY, world.texts)
                self.assertEqual(bits(ranking), bits(world.by_vectors))
        self.assertEqual(bits(client.rank(server.url, KEY, QUERY, world.texts, top_n=3)), bits(world.by_vectors[:3]))

    def test_texts_come_back_where_they_are_asked_for(self):
        wanted = [world.texts[index] for index, _ in world.by_vectors]
        for provider, path in (("cohere", "/v2/rerank"), ("infinity", "/infinity")):
            with self.subTest(provider):
                client = LiteLlm(provider, path)
                answer = client.answer(world.server.url + "/text", KEY, QUERY, world.texts, return_documents=True)
                self.assertEqual([result["document"]["text"] for result in answer.results], wanted)


@only_with("voyageai")
class VoyageOptionsTest(unittest.TestCase):
    def test_tokens_are_counted_and_truncation_may_be_refused(self):
        answer = Voyage().answer(world.server.url + "/text", KEY, QUERY, world.texts, THEIR_MODEL, truncation=False)
        self.assertEqual([one.document for one in answer.results], [world.texts[i] for i, _ in world.by_vectors])
        self.assertGreater(answer.total_tokens, 0)


for package in PACKAGES:
    for name, make in CLIENTS[package].items():
        client = make()
        more = [part for part, holds in ((NamesModel, client.names_model), (Cuts, client.cuts)) if holds]
        globals()[f"{name}Test"] = type(f"{name}Test", (DropIn, *more, unittest.TestCase), {"make": staticmethod(make)})

if __name__ == "__main__":
    # Without this argument, Python warns about each connection that a client leaves open.
    unittest.main(argv=sys.argv[:1], verbosity=2, warnings="ignore")
