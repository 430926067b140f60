#!/bin/sh
# Makes the key stores of this folder anew, with the JDK's keytool. Valid for a hundred years.
set -eu
cd "$(dirname "$0")"
rm -f ./*.jks ./*.p12 ./*.pem
for name in root inter client; do
    keytool -genkeypair -alias $name -keyalg EC -dname CN=$name -validity 36500 -ext bc:c \
        -storetype PKCS12 -keystore all.p12 -storepass changeit
done
sign() {
    keytool -certreq -alias "$2" -keystore all.p12 -storepass changeit |
        keytool -gencert -alias "$1" -validity 36500 $3 -keystore all.p12 -storepass changeit -rfc > "$2.pem"
    keytool -importcert -noprompt -alias "$2" -file "$2.pem" -keystore all.p12 -storepass changeit
}
keytool -exportcert -alias root -keystore all.p12 -storepass changeit -rfc > root.pem
sign root inter "-ext bc:c"
sign inter client ""
keytool -importkeystore -srckeystore all.p12 -srcstorepass changeit -srcalias client -deststoretype PKCS12 \
    -destkeystore client.p12 -deststorepass changeit
keytool -importkeystore -srckeystore all.p12 -srcstorepass changeit -srcalias client -deststoretype JKS \
    -destkeystore client.jks -deststorepass changeit -destkeypass key-password
for type in PKCS12:p12 JKS:jks; do
    for name in root inter; do
        keytool -importcert -noprompt -alias $name -file $name.pem -storetype ${type%:*} \
            -keystore trust.${type#*:} -storepass changeit
    done
done
rm -f all.p12
