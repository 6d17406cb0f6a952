// The parts of Node's modules that node.ts uses, so that compiling needs no package @types/node.

declare module "node:https" {
  import type { IncomingMessage, ClientRequest } from "node:http";
  export class Agent {
    constructor(options: object);
  }
  export function request(url: string, options: object, onAnswer: (answer: IncomingMessage) => void): ClientRequest;
}

declare module "node:http" {
  export interface IncomingMessage {
    statusCode?: number;
    rawHeaders: string[];
    on(event: "data", listener: (chunk: Uint8Array) => void): void;
    on(event: "end", listener: () => void): void;
    on(event: "error", listener: (error: Error) => void): void;
  }
  export interface ClientRequest {
    on(event: "error", listener: (error: Error) => void): void;
    end(body?: string): void;
  }
}
