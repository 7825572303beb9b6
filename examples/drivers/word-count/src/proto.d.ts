declare module "kairos:proto" {
  const protocol: import("protobufjs").INamespace;
  export default protocol;
}
