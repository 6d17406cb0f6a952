"""Makes documents with payloads, as the collections of vector stores hold them."""

from stores_fixture import ImportTest, random_documents

COUNT = 40


class StoresTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.documents = random_documents(COUNT)
        self.payloads = [{"title": f"Título {n}", "page": n, "tags": ["a", {"b": n / 4}]} for n in range(COUNT)]
