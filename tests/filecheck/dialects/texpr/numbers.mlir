// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// Every double reads back as itself.
// CHECK-LABEL: texpr.routine @numbers {
// CHECK-NEXT:    %0 = texpr.constant 0.0 : !texpr.tensor<>
// CHECK-NEXT:    %1 = texpr.constant -0.0 : !texpr.tensor<>
// CHECK-NEXT:    %2 = texpr.constant 1.0 : !texpr.tensor<>
// CHECK-NEXT:    %3 = texpr.constant -1.5 : !texpr.tensor<>
// CHECK-NEXT:    %4 = texpr.constant 0.1 : !texpr.tensor<>
// CHECK-NEXT:    %5 = texpr.constant 1.0e-05 : !texpr.tensor<>
// CHECK-NEXT:    %6 = texpr.constant 1.0e-300 : !texpr.tensor<>
// CHECK-NEXT:    %7 = texpr.constant 5.0e-324 : !texpr.tensor<>
// CHECK-NEXT:    %8 = texpr.constant 1.7976931348623157e+308 : !texpr.tensor<>
// CHECK-NEXT:    %9 = texpr.constant 123456789.123 : !texpr.tensor<>
// CHECK-NEXT:    %10 = texpr.constant inf : !texpr.tensor<>
// CHECK-NEXT:    %11 = texpr.constant -inf : !texpr.tensor<>
// CHECK-NEXT:    %12 = texpr.constant nan : !texpr.tensor<>
// CHECK-NEXT:    %13 = texpr.apply = max(add(%0, 1.0e-05), -inf) logic "." : !texpr.tensor<>
// CHECK-NEXT:  }
texpr.routine @numbers {
  %0 = texpr.constant 0.0 : !texpr.tensor<>
  %1 = texpr.constant -0.0 : !texpr.tensor<>
  %2 = texpr.constant 1.0 : !texpr.tensor<>
  %3 = texpr.constant -1.5 : !texpr.tensor<>
  %4 = texpr.constant 0.1 : !texpr.tensor<>
  %5 = texpr.constant 1.0e-05 : !texpr.tensor<>
  %6 = texpr.constant 1.0e-300 : !texpr.tensor<>
  %7 = texpr.constant 5.0e-324 : !texpr.tensor<>
  %8 = texpr.constant 1.7976931348623157e+308 : !texpr.tensor<>
  %9 = texpr.constant 123456789.123 : !texpr.tensor<>
  %10 = texpr.constant inf : !texpr.tensor<>
  %11 = texpr.constant -inf : !texpr.tensor<>
  %12 = texpr.constant nan : !texpr.tensor<>
  %13 = texpr.apply = max(add(%0, 1.0e-05), -inf) logic "." : !texpr.tensor<>
}
