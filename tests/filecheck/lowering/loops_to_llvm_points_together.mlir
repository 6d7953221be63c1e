// RUN: ocannl-opt %s --cpu x86-64-v4 -t llvm | filecheck %s --check-prefixes=BOTH,MANY
// RUN: ocannl-opt %s --cpu x86-64-v3 -t llvm | filecheck %s --check-prefixes=BOTH,FEW

// The loop of a product takes several points at a time. With 16 registers it does so only where a row of the tile has
// two vectors: else LLVM stores accumulators between the points.
// BOTH-LABEL: define internal void @"one.y"
// MANY:         add nuw nsw i64 {{.*}}, 2
// FEW:          call <8 x float> @llvm.fmuladd
// FEW:          add nuw nsw i64 {{.*}}, 1
// FEW-NEXT:     icmp ult i64 {{.*}}, 64
// BOTH-LABEL: define internal void @"two.y"
// BOTH:         add nuw nsw i64 {{.*}}, 4
// BOTH-NEXT:    icmp ult i64 {{.*}}, 64
loops.func @one attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<24x64xf32>
  %w = assign.node "w" constant : memref<64x8xf32>
  %y = assign.node "y" on_device : memref<24x8xf32>
  loops.nest "y" (b = 24, o = 8) schedule <order = (o, b), rows = b : 12, lanes = o : 8> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}
loops.func @two attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<24x64xf32>
  %w = assign.node "w" constant : memref<64x16xf32>
  %y = assign.node "y" on_device : memref<24x16xf32>
  loops.nest "y" (b = 24, o = 16) schedule <order = (o, b), rows = b : 6, lanes = o : 16> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}
