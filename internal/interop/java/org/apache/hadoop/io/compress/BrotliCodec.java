package org.apache.hadoop.io.compress;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.brotli.dec.BrotliInputStream;

/** The class that parquet-java looks for when a page is compressed with brotli. It only reads. */
public final class BrotliCodec implements CompressionCodec {
  @Override
  public CompressionInputStream createInputStream(InputStream in) throws IOException {
    InputStream plain = new BrotliInputStream(in);
    return new CompressionInputStream(in) {
      @Override
      public int read(byte[] b, int off, int len) throws IOException {
        return plain.read(b, off, len);
      }

      @Override
      public int read() throws IOException {
        return plain.read();
      }

      @Override
      public void resetState() {
        throw new UnsupportedOperationException("one page a stream");
      }
    };
  }

  @Override
  public CompressionInputStream createInputStream(InputStream in, Decompressor decompressor) throws IOException {
    return createInputStream(in);
  }

  @Override
  public Class<? extends Decompressor> getDecompressorType() {
    return null;
  }

  @Override
  public Decompressor createDecompressor() {
    return null;
  }

  @Override
  public CompressionOutputStream createOutputStream(OutputStream out) {
    throw new UnsupportedOperationException("brotli is only read");
  }

  @Override
  public CompressionOutputStream createOutputStream(OutputStream out, Compressor compressor) {
    return createOutputStream(out);
  }

  @Override
  public Class<? extends Compressor> getCompressorType() {
    return null;
  }

  @Override
  public Compressor createCompressor() {
    return null;
  }

  @Override
  public String getDefaultExtension() {
    return ".br";
  }
}
