// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// One warp copies, eight multiply: two blocks compute three tiles each, with nine steps in a ring of four.
loops.func @product {
  %x = assign.node "x" on_device : memref<384x576xbf16>
  %w = assign.node "w" on_device : memref<128x576xbf16>
  %y = assign.node "y" on_device : memref<384x128xf32>
  kernel.launch "y" grid (worker = 2) block (b_warp = 8, g = 8, t = 4) registers (tile = 8, half = 2, h = 2, c = 2, pair = 2) {
    %xs = kernel.shared memref<4x128x64xbf16, "swizzled ring">
    %ws = kernel.shared memref<4x64x64xbf16, "swizzled ring">
    kernel.roles producer registers 40 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          kernel.for (block = 9) {
            kernel.fill 9*turn + block {
              kernel.copy bulk %x[b + 128*b_block, k + 64*block] to %xs[9*turn + block, b, k] over (b = 128, k = 64) by 8
              kernel.copy bulk %w[o + 64*o_block, k + 64*block] to %ws[9*turn + block, o, k] over (o = 64, k = 64) by 8
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 3) {
        kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
          %sum = loops.reduce add (block = 9) : f32 {
            kernel.wait_products 1
            kernel.where -block + 8 < 7 {
              kernel.release 9*turn + block - 2
            }
            kernel.await 9*turn + block
            %part = loops.reduce add (step = 4) : f32 {
              %a = loops.load %xs[9*turn + block, 16*b_warp + g + 8*h, 8*half + pair + 16*step + 2*t]
              %b = loops.load %ws[9*turn + block, g + 8*tile, 8*half + pair + 16*step + 2*t]
              %p = kernel.mma async %a, %b rows (h) deep (half, pair) columns (c)
              loops.yield %p
            }
            loops.yield %part
          }
          kernel.release 9*turn + 7
          kernel.release 9*turn + 8
          loops.store %sum, %y[128*b_block + 16*b_warp + g + 8*h, 64*o_block + c + 2*t + 8*tile]
        }
      }
    }
  }
}

// CHECK-LABEL: loops.func @product {
// CHECK:           kernel.roles producer registers 40 {
// CHECK-NEXT:        kernel.for (turn = 3) {
// CHECK-NEXT:          kernel.point (b_block = 3, o_block = 2) number 2*turn + worker {
// CHECK-NEXT:            kernel.for (block = 9) {
// CHECK-NEXT:              kernel.fill block + 9*turn {
// CHECK-NEXT:                kernel.copy bulk %x[b + 128*b_block, 64*block + k] to %xs[block + 9*turn, b, k] over (b = 128, k = 64) by 8
// CHECK-NEXT:                kernel.copy bulk %w[o + 64*o_block, 64*block + k] to %ws[block + 9*turn, o, k] over (o = 64, k = 64) by 8
// CHECK-NEXT:              }
// CHECK:           } consumer registers 232 {
// CHECK:                 kernel.wait_products 1
// CHECK-NEXT:            kernel.where -block + 8 < 7 {
// CHECK-NEXT:              kernel.release block + 9*turn - 2
// CHECK-NEXT:            }
// CHECK-NEXT:            kernel.await block + 9*turn
// CHECK:               kernel.release 9*turn + 7
// CHECK-NEXT:          kernel.release 9*turn + 8
