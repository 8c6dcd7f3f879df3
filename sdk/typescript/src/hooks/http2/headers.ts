/** Headers of http2: objects with lower-case or other names, pseudo-headers such as `:path`, and symbols. */

export type LooseHeaders = Record<string, string | string[] | number | undefined>;

/** The value of a header, which may be written in any case. */
export function headerOf(headers: LooseHeaders, name: string): string | undefined {
  const key = name in headers ? name : Object.keys(headers).find((one) => one.toLowerCase() === name);
  const value = key === undefined ? undefined : headers[key];
  return value === undefined ? undefined : String(value);
}

/** Whether a message is of gRPC, but not of gRPC-Web. */
export function isGrpc(headers: LooseHeaders): boolean {
  return /^application\/grpc(?!-web)/i.test(headerOf(headers, 'content-type') ?? '');
}
