/**
 * Encodes a body again after its tail was cut off, in the content coding of its headers and without compressing it. The
 * application decodes it as it does without tracing.
 */

import { EMPTY } from '../../wire/bytes';

/** The longest stored block of DEFLATE. The window of the Brotli streams below is as large. */
const MAX_BLOCK_BYTES = 0xffff;

export interface BodyEncoder {
  encode(bytes: Buffer): Buffer;
  /** The end of a complete body. */
  end(): Buffer;
}

/** Bytes after which no decoder continues: a block of a type that does not exist. */
export const INVALID = Buffer.from([0xff, 0xff]);

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) {
    crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return crc;
});

function* blocksOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += MAX_BLOCK_BYTES) {
    yield bytes.subarray(at, at + MAX_BLOCK_BYTES);
  }
}

/** DEFLATE (RFC 1951) with stored blocks, between a header and a trailer. */
abstract class StoredBlocks implements BodyEncoder {
  private hasBegun = false;

  protected constructor(private readonly header: Buffer) {}

  protected abstract add(bytes: Buffer): void;
  protected abstract trailer(): Buffer;

  private begin(): Buffer {
    const header = this.hasBegun ? EMPTY : this.header;
    this.hasBegun = true;
    return header;
  }

  encode(bytes: Buffer): Buffer {
    this.add(bytes);
    const parts = [this.begin()];
    for (const block of blocksOf(bytes)) {
      const head = Buffer.alloc(5);
      head.writeUInt16LE(block.length, 1);
      head.writeUInt16LE(block.length ^ 0xffff, 3);
      parts.push(head, block);
    }
    return Buffer.concat(parts);
  }

  end(): Buffer {
    const lastBlock = Buffer.from([1, 0, 0, 0xff, 0xff]);
    return Buffer.concat([this.begin(), lastBlock, this.trailer()]);
  }
}

/** RFC 1952 */
class Gzip extends StoredBlocks {
  private crc = 0xffffffff;
  private length = 0;

  constructor() {
    super(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]));
  }

  protected add(bytes: Buffer): void {
    for (const byte of bytes) {
      this.crc = (this.crc >>> 8) ^ CRC_TABLE[(this.crc ^ byte) & 0xff]!;
    }
    this.length += bytes.length;
  }

  protected trailer(): Buffer {
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE((this.crc ^ 0xffffffff) >>> 0, 0);
    trailer.writeUInt32LE(this.length % 2 ** 32, 4);
    return trailer;
  }
}

/** RFC 1950 */
class Zlib extends StoredBlocks {
  private low = 1;
  private high = 0;

  constructor() {
    super(Buffer.from([0x78, 1]));
  }

  protected add(bytes: Buffer): void {
    for (const byte of bytes) {
      this.low = (this.low + byte) % 65521;
      this.high = (this.high + this.low) % 65521;
    }
  }

  protected trailer(): Buffer {
    const trailer = Buffer.alloc(4);
    trailer.writeUInt32BE(this.high * 65536 + this.low, 0);
    return trailer;
  }
}

/** RFC 7932, with uncompressed meta-blocks. */
class Brotli implements BodyEncoder {
  private hasBegun = false;

  encode(bytes: Buffer): Buffer {
    const parts: Buffer[] = [];
    for (const block of blocksOf(bytes)) {
      // from the lowest bit on: not the last, four nibbles of a length, the length less one, not compressed
      let bits = ((block.length - 1) << 3) | (1 << 19);
      if (!this.hasBegun) {
        bits *= 2; // one bit for a window of 64 KiB
        this.hasBegun = true;
      }
      parts.push(Buffer.from([bits & 0xff, (bits >> 8) & 0xff, (bits >> 16) & 0xff]), block);
    }
    return Buffer.concat(parts);
  }

  end(): Buffer {
    // the last, empty; at the beginning of the stream after the bit for the window
    return Buffer.from([this.hasBegun ? 0b11 : 0b110]);
  }
}

/** The encoder of a content coding; null if there is none. */
export function encoderFor(coding: string): BodyEncoder | null {
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return new Gzip();
    case 'deflate':
      return new Zlib();
    case 'br':
      return new Brotli();
    default:
      return null;
  }
}
