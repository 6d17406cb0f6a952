/**
 * The client of maxsimd, the rerank service for late-interaction retrieval: token vectors or texts in, ranked documents
 * out. Begin with {@link maxsim.client.MaxsimClient}.
 */
package maxsim.client;
